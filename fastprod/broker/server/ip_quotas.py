"""IpQuotas: how fast each address may open connections, on every node (KIP-612)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fastprod.broker.config import INT32_MAX
from fastprod.broker.network.connection_quotas import ConnectionQuotas, checked_address
from fastprod.errors import ConfigError

RATE: Final = "connection_creation_rate"
"""Kafka's name of the quota."""

MOST_ADDRESSES: Final = 10_000


class IpQuotas:
    """The rates of addresses, of all nodes. They are forgotten when the broker stops.

    Any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._quotas: dict[int, ConnectionQuotas] = {}
        self._rates: dict[str | None, float] = {}

    def attach(self, node_id: int, quotas: ConnectionQuotas) -> None:
        """Have `quotas` of a node follow the rates, in place of those that did before."""
        with self._lock:
            self._quotas[node_id] = quotas
            for address, rate in self._rates.items():
                quotas.update_ip_rate(address, rate)

    def rates(self) -> Mapping[str | None, float]:
        """Connections a second by address; None: of each that has no rate of its own."""
        with self._lock:
            return MappingProxyType(dict(self._rates))

    def alter(
        self, address: str | None, rate_per_s: float | None, validate_only: bool = False
    ) -> None:
        """Set the rate of an address, or with None of each that has no rate of its own.

        Args:
            address: as text; None: the default.
            rate_per_s: connections a second, a whole number; None: no limit.
            validate_only: only look whether it can be.

        Raises:
            ConfigError: no address, a wrong rate, or too many addresses.
        """
        key = None if address is None else checked_address(address)
        if rate_per_s is not None:
            _check_rate(rate_per_s)
        with self._lock:
            if rate_per_s is not None and key not in self._rates:
                _check_count(len(self._rates) + 1)
            if validate_only:
                return
            if rate_per_s is None:
                self._rates.pop(key, None)
            else:
                self._rates[key] = rate_per_s
            for quotas in self._quotas.values():
                quotas.update_ip_rate(key, rate_per_s)


def _check_rate(rate_per_s: float) -> None:
    if not 1 <= rate_per_s <= INT32_MAX or rate_per_s % 1 != 0:
        raise ConfigError(
            f"{RATE} is {rate_per_s:g}; it must be a whole number from 1 to {INT32_MAX:,}", key=RATE
        )


def _check_count(count: int) -> None:
    if count > MOST_ADDRESSES:
        raise ConfigError(f"{RATE}: there are {MOST_ADDRESSES:,} addresses with a rate", key=RATE)
