"""Checks of the arguments of `Broker`, before anything is made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from fastprod.broker.config import BrokerConfig
from fastprod.broker.listener_security import ListenerSecurity
from fastprod.errors import ConfigError
from fastprod.security.secret import plain_text

_MAX_NODE_COUNT = 100


def check_refusals(config: BrokerConfig, security: ListenerSecurity) -> None:
    """Refuse a delay of refusals longer than a connection may be idle; see `check_addresses`."""
    delay_ms = config.connection_failed_authentication_delay_ms
    idle_ms = config.connections_max_idle_ms
    if security.mechanisms is not None and delay_ms >= idle_ms:
        raise ConfigError(
            f"connection_failed_authentication_delay_ms is {delay_ms:,}, connections_max_idle_ms "
            f"{idle_ms:,}: a connection would be closed before its refusal; make the delay shorter",
            key="connection_failed_authentication_delay_ms",
            value=delay_ms,
        )


def check_addresses(brokers: int, host: str, port: int) -> None:
    """Refuse a number of nodes, a host or a port that cannot be.

    Raises:
        ConfigError: which, and what it can be.
    """
    if not isinstance(host, str):
        raise ConfigError(f"host is {host!r}; it must be text", key="host")
    if isinstance(brokers, bool) or not isinstance(brokers, int):
        raise ConfigError(f"brokers is {brokers!r}; it must be a whole number", key="brokers")
    if not 1 <= brokers <= _MAX_NODE_COUNT:
        raise ConfigError(
            f"brokers is {brokers}; it must be from 1 to {_MAX_NODE_COUNT}", key="brokers"
        )
    if isinstance(port, bool) or not isinstance(port, int):
        raise ConfigError(f"port is {port!r}; it must be a whole number", key="port")
    if not 0 <= port <= 65_536 - brokers:
        raise ConfigError(
            f"port is {port}; with {brokers} node(s) it must be from 0 to {65_536 - brokers}",
            key="port",
        )


def check_folder(data_dir: str | os.PathLike[str] | None, discard: bool) -> None:
    """Refuse an empty folder name, or a folder with `discard`; see `check_addresses`."""
    if data_dir is None:
        return
    if discard:
        raise ConfigError(
            "discard keeps no records, data_dir keeps them; choose one", key="discard"
        )
    if not os.fspath(data_dir):
        raise ConfigError("data_dir is empty; '.' is the current folder", key="data_dir")


def first_topics(topics: Mapping[str, int] | Iterable[str]) -> dict[str, int]:
    """Names to numbers of partitions; -1: as many as `num_partitions` says.

    Raises:
        ConfigError: they are something else.
    """
    if isinstance(topics, str):
        raise ConfigError(
            f"topics is the text {topics!r}; give a list of names, or names with partition counts",
            key="topics",
        )
    named = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, -1)
    for name, count in named.items():
        if not isinstance(name, str) or isinstance(count, bool) or not isinstance(count, int):
            raise ConfigError(
                f"topics has {name!r}: {count!r}; it must be text and a whole number", key="topics"
            )
    return {plain_text(name): count for name, count in named.items()}
