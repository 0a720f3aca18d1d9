"""Checks of the arguments of `Broker`, before anything is made."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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


def check_kinds(
    advertised_host: object,
    versions: object,
    tls: object,
    sasl_users: object,
    oauth_validator: object,
) -> None:
    """Refuse arguments that are of another kind than can be; see `check_addresses`."""
    if advertised_host is not None and not isinstance(advertised_host, str):
        raise ConfigError(
            f"advertised_host is {advertised_host!r}; it must be text", key="advertised_host"
        )
    for name, given in (("versions", versions), ("sasl_users", sasl_users)):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"{name} must be a mapping, not {type(given).__name__}", key=name)
    if not isinstance(tls, bool):
        raise ConfigError(f"tls is {tls!r}; it must be True or False", key="tls")
    if oauth_validator is not None and not callable(oauth_validator):
        raise ConfigError(
            f"oauth_validator must be callable, not {type(oauth_validator).__name__}",
            key="oauth_validator",
        )


def folder_of(data_dir: str | os.PathLike[str] | None, discard: bool) -> Path | None:
    """The folder for logs; refuses an empty name, or a folder with `discard`.

    Raises:
        ConfigError: which, and what it can be.
    """
    if data_dir is None:
        return None
    if discard:
        raise ConfigError(
            "discard keeps no records, data_dir keeps them; choose one", key="discard"
        )
    try:
        name = os.fspath(data_dir)
    except TypeError:
        name = None
    if not isinstance(name, str):
        raise ConfigError(
            f"data_dir must be a str or a path, not {type(data_dir).__name__}", key="data_dir"
        )
    if not name:
        raise ConfigError("data_dir is empty; '.' is the current folder", key="data_dir")
    return Path(plain_text(name))  # Path makes more than its text of one that is more


def whole_number(name: str, value: Any) -> int:
    """Return an argument as an int.

    Raises:
        TypeError: it is none; `name` says which.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")


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
    if not isinstance(topics, Iterable):
        raise ConfigError(
            f"topics must be a list of names, or names with partition counts, not "
            f"{type(topics).__name__}",
            key="topics",
        )
    named = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, -1)
    for name, count in named.items():
        if not isinstance(name, str) or isinstance(count, bool) or not isinstance(count, int):
            raise ConfigError(
                f"topics has {name!r}: {count!r}; it must be text and a whole number", key="topics"
            )
    return {plain_text(name): count for name, count in named.items()}


def topic_settings(config: Mapping[str, Any] | None) -> dict[str, str]:
    """The settings of a topic as the texts that a client would send.

    Raises:
        TypeError: they are no mapping, or one of them has no text that means the same.
    """
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be a mapping, not {type(config).__name__}")
    return {_setting_text("a name", name): _setting_text(name, config[name]) for name in config}


def _setting_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(float(value))
    try:
        return str(operator.index(value))
    except TypeError:
        raise TypeError(
            f"config has {value!r:.100} as {name}; it must be text, a number or a bool"
        ) from None
