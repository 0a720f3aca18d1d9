"""DynamicSettings: the settings of nodes that clients can change, and what they were changed to."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastprod.broker.config import INT32_MAX, BrokerConfig
from fastprod.broker.listeners import PROTOCOLS
from fastprod.broker.network.connection_quotas import (
    ConnectionQuotas,
    check_max_per_ip,
    checked_address,
    parse_overrides,
    resolved_overrides,
)
from fastprod.broker.network.rate_quota import UNLIMITED
from fastprod.errors import ConfigError

_COUNT, _RATE = "max.connections", "max.connection.creation.rate"
_PER_IP, _OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"
_FIELDS: Final = {each: each.replace(".", "_") for each in (_COUNT, _PER_IP, _OVERRIDES, _RATE)}
_LISTENER_PREFIX: Final = "listener.name."
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")

Changes = Mapping[str, str | None]
"""Settings to their new values as text; None: back to what holds without the change."""


class _Limits(NamedTuple):
    """The limits of one node.

    Attributes:
        max_connections: in all.
        max_per_ip: of an address without an override.
        rate: connections a second.
        overrides: of single addresses.
        listeners: by name of the listener: connections, and connections a second.
    """

    max_connections: int
    max_per_ip: int
    rate: float
    overrides: Mapping[str, int]
    listeners: Mapping[str, tuple[int, int]]

    def apply(self, quotas: ConnectionQuotas) -> None:
        """Hold connections to these limits; cannot fail."""
        # In this order: 0 for each address needs overrides.
        quotas.update_max_connections_per_ip_overrides(self.overrides)
        quotas.update_max_connections_per_ip(self.max_per_ip)
        quotas.update_max_connections(self.max_connections)
        quotas.update_broker_rate(self.rate)
        for name in quotas.listener_names:
            count, rate = self.listeners.get(name, (UNLIMITED, UNLIMITED))
            quotas.update_listener_max_connections(name, count)
            quotas.update_listener_rate(name, rate)


def can_change(name: str) -> bool:
    """Whether `name` is a setting that can be changed."""
    return name in _FIELDS or _split(name) is not None


def is_number(name: str) -> bool:
    """Whether a setting that can be changed is a number; the others are texts."""
    return can_change(name) and name != _OVERRIDES


class DynamicSettings:
    """What the limits of connections were changed to since the start: of one node, or of all.

    The value of a node goes before that of all nodes, and that before the broker's own (B-D4.9).
    Changes are forgotten when the broker stops.

    Any thread. Never waits for a name server: overrides are set by addresses.

    Args:
        config: what holds without a change.
        node_ids: every node.
        listener_names: of each node.

    Raises:
        ConfigError: the limits of `config` cannot be.
    """

    def __init__(
        self,
        config: BrokerConfig,
        node_ids: Sequence[int],
        listener_names: Collection[str] = PROTOCOLS,
    ) -> None:
        self._config = config
        self._node_ids = tuple(node_ids)
        self._listener_names = tuple(listener_names)
        self._overrides = resolved_overrides(
            parse_overrides(config.max_connections_per_ip_overrides)
        )
        self._lock = threading.Lock()
        # By node, None: of all. Replaced as a whole, so that readers take no lock.
        self._changed: Mapping[int | None, Mapping[str, str]] = {}
        self._limits: dict[int, _Limits] = {}
        self._quotas: dict[int, ConnectionQuotas] = {}

    def attach(self, node_id: int, quotas: ConnectionQuotas) -> None:
        """Have `quotas` follow the limits of a node, in place of those that did before."""
        with self._lock:
            self._quotas[node_id] = quotas
            if node_id in self._limits:
                self._limits[node_id].apply(quotas)

    def changed(self, node_id: int | None) -> Mapping[str, str]:
        """The settings that were changed for a node, or with None for all nodes."""
        return self._changed.get(node_id, {})

    def alter(self, node_id: int | None, changes: Changes, validate_only: bool = False) -> None:
        """Change settings of a node, or with None of all nodes; all of them or none.

        Args:
            node_id: the node; None: all.
            changes: as `Changes`.
            validate_only: only look whether they can be.

        Raises:
            ConfigError: a setting cannot be changed, or has a wrong value.
        """
        for name in changes:
            listener = _split(name)
            is_strange = listener is not None and listener[0] not in self._listeners()
            if not can_change(name) or is_strange:
                raise ConfigError(self._not_dynamic(name), key=name)
        with self._lock:
            level = {**self.changed(node_id), **changes}
            kept = {name: value for name, value in level.items() if value is not None}
            changed = {**self._changed, node_id: kept}
            concerned = self._node_ids if node_id is None else (node_id,)
            # Each level by itself: once, however many nodes it holds for, and whole, for the value
            # of a node may hide a wrong one of all nodes.
            typed = {
                each: {name: _typed(name, value) for name, value in changed.get(each, {}).items()}
                for each in (None, *concerned)
            }
            limits = {each: self._limits_of({**typed[None], **typed[each]}) for each in concerned}
            if validate_only:
                return
            self._changed = changed
            self._limits.update(limits)
            for each, mine in limits.items():
                if each in self._quotas:
                    mine.apply(self._quotas[each])

    def _limits_of(self, typed: Mapping[str, Any]) -> _Limits:
        config = self._config
        overrides = typed.get(_OVERRIDES, self._overrides)
        max_per_ip = typed.get(_PER_IP, config.max_connections_per_ip)
        check_max_per_ip(max_per_ip, overrides)
        listeners = {}
        for lower, name in self._listeners().items():
            prefix = f"{_LISTENER_PREFIX}{lower}."
            count, rate = (typed.get(prefix + each, UNLIMITED) for each in (_COUNT, _RATE))
            listeners[name] = (count, rate)
        return _Limits(
            typed.get(_COUNT, config.max_connections),
            max_per_ip,
            typed.get(_RATE, config.max_connection_creation_rate),
            overrides,
            listeners,
        )

    def _listeners(self) -> dict[str, str]:
        """Their names as settings have them, in lower case, to their names."""
        return {name.lower(): name for name in self._listener_names}

    def _not_dynamic(self, name: str) -> str:
        return (
            f"{name} cannot be changed while the broker runs; these can: {', '.join(_FIELDS)}, "
            f"and listener.name.<name>.{_COUNT} and {_RATE} of the listeners "
            f"{', '.join(self._listeners())}"
        )


def _split(name: str) -> tuple[str, str] | None:
    """The listener and the setting of a name like listener.name.ssl.max.connections."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    rest = name.removeprefix(_LISTENER_PREFIX)
    for setting in (_COUNT, _RATE):
        listener = rest.removesuffix(f".{setting}")
        # Their names are in lower case here, and may have dots.
        if listener not in ("", rest) and listener == listener.lower():
            return listener, setting
    return None


def _typed(name: str, text: str) -> Any:
    """The value of a setting.

    Raises:
        ConfigError: it cannot have this one.
    """
    if name == _OVERRIDES:
        return {checked_address(host): count for host, count in parse_overrides(text).items()}
    low = 0 if name in (_COUNT, _PER_IP) else 1
    digits = text.strip()  # also of characters that int() does not take for blanks
    if not _WHOLE_NUMBER.fullmatch(digits):
        raise ConfigError(f"{name} is {text!r}; it must be a whole number", key=name)
    value = int(digits)
    if not low <= value <= INT32_MAX:
        raise ConfigError(
            f"{name} is {value}; it must be from {low} to {INT32_MAX:,}", key=name, value=value
        )
    return value
