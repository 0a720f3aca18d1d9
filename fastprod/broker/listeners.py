"""Listeners: the ways into a node, each with a protocol and an address of its own (KIP-103)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fastprod.errors import ConfigError
from fastprod.frozen import FrozenRecord

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY: Final = "listeners"


class Endpoint(NamedTuple):
    """Where clients reach a listener of a node."""

    host: str
    port: int

    def __str__(self) -> str:
        """Host and port as clients take them: an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerListener(FrozenRecord):
    """One way into each node of a broker.

    Attributes:
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        port: of the first node, the others have the next ones; default 0: the system chooses each.
        host: address to listen on; default None: that of the broker.
        advertised_host: address that its clients are told; default None: that of the broker, else
            `host`, or 127.0.0.1 where that is every address of the machine.
        advertised_port: port that its clients are told, of the first node as `port`; default None:
            the one that it listens on.
    """

    protocol: str = "PLAINTEXT"
    port: int = 0
    host: str | None = None
    advertised_host: str | None = None
    advertised_port: int | None = None

    @property
    def has_tls(self) -> bool:
        """Whether clients speak TLS."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients say who they are by SASL."""
        return self.protocol.startswith("SASL")

    def of_node(self, node_id: int) -> BrokerListener:
        """The same with the ports of a node."""
        port, told = self.port, self.advertised_port
        changed = self.__replace__(
            port=port + node_id if port else 0,
            advertised_port=None if told is None else told + node_id,
        )
        assert isinstance(changed, BrokerListener)
        return changed

    def endpoint(self, bound_port: int) -> Endpoint:
        """What clients are told, of a listener whose `host` is known."""
        host = self.host or ""
        told = self.advertised_host or ("127.0.0.1" if host in _ANY_ADDRESS else host)
        return Endpoint(told, bound_port if self.advertised_port is None else self.advertised_port)


Listeners = Mapping[str, BrokerListener]
"""Kafka's names of listeners, and what they are; clients of the broker itself use the first."""


def checked_listeners(
    given: Mapping[str, str | BrokerListener], brokers: int, host: str, advertised_host: str | None
) -> Listeners:
    """Return listeners with their hosts filled in.

    Args:
        given: by name; a protocol alone stands for a listener with a port that the system chooses.
        brokers: number of nodes.
        host: of listeners without one.
        advertised_host: likewise.

    Raises:
        ConfigError: a name, a protocol, a host or a port cannot be, or two listeners meet.
    """
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(
            f"{_KEY} is {given!r}; it must map names to protocols, or to BrokerListeners", key=_KEY
        )
    found: dict[str, BrokerListener] = {}
    for name, each in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _wrong(name, "its name must be 1 to 64 letters, digits, '.', '_' and '-'")
        if name.lower() in map(str.lower, found):
            raise _wrong(name, "another one is spelled like it but for upper and lower case")
        listener = BrokerListener(each) if isinstance(each, str) else each
        if not isinstance(listener, BrokerListener):
            raise _wrong(name, f"{each!r} is neither a protocol nor a BrokerListener")
        if listener.protocol not in PROTOCOLS:
            raise _wrong(name, f"protocol {listener.protocol!r}; there are {', '.join(PROTOCOLS)}")
        for what in ("port", "advertised_port"):
            _check_port(name, what, getattr(listener, what), brokers)
        for what in ("host", "advertised_host"):
            value = getattr(listener, what)
            if value is not None and not isinstance(value, str):
                raise _wrong(name, f"{what} is {value!r}; it must be text")
        found[name] = listener.__replace__(
            host=host if listener.host is None else listener.host,
            advertised_host=listener.advertised_host or advertised_host,
        )
    _check_ranges(found, brokers)
    return found


def _check_port(name: str, what: str, value: Any, brokers: int) -> None:
    if value is None and what == "advertised_port":
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, f"{what} is {value!r}; it must be a whole number")
    if not 0 <= value <= 65_536 - brokers:
        raise _wrong(
            name,
            f"{what} is {value}; with {brokers} node(s) it must be from 0 to {65_536 - brokers}",
        )


def _check_ranges(found: Listeners, brokers: int) -> None:
    """Refuse listeners whose ports meet on one node or another."""
    taken: dict[int, str] = {}
    for name, listener in found.items():
        for port in range(listener.port, listener.port + brokers) if listener.port else ():
            if port in taken:
                raise _wrong(
                    name,
                    f"port {port} is also that of listener {taken[port]}; each needs {brokers} "
                    f"port(s) from its first one on",
                )
            taken[port] = name


def _wrong(name: object, why: str) -> ConfigError:
    return ConfigError(f"{_KEY}: listener {name!r}: {why}", key=_KEY)
