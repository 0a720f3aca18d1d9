"""Addresses: from a host name to what connect() takes, and from one address to the next."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from fastprod.config_values import BootstrapAddress
from fastprod.errors import ConfigError
from fastprod.log import Log
from fastprod.records import Node

_LOG = Log(__name__)

_LONGEST_LABEL = 63


class Address(NamedTuple):
    """One IPv4 or IPv6 address and port. Equal addresses reach the same socket."""

    family: int
    ip: str
    port: int
    flow_info: int = 0
    scope_id: int = 0

    def packed(self) -> bytes:
        """The ``sockaddr_in`` or ``sockaddr_in6`` of this address, as connect(2) takes it."""
        ip = socket.inet_pton(self.family, self.ip)
        if self.family == socket.AF_INET:
            body = struct.pack("!H4s8x", self.port, ip)
        else:
            body = struct.pack("!HI16s", self.port, self.flow_info, ip)
            body += struct.pack("=I", self.scope_id)
        if sys.platform == "darwin":
            return struct.pack("BB", len(body) + 2, self.family) + body
        return struct.pack("=H", self.family) + body

    def __str__(self) -> str:
        ip = f"[{self.ip}]" if self.family == socket.AF_INET6 else self.ip
        return f"{ip}:{self.port}"


Resolver = Callable[[str, int], Sequence[Address]]
"""Host name and port to addresses; raises ``OSError`` where there are none. May block."""


def resolve_by_system(host: str, port: int) -> list[Address]:
    """Ask the system's resolver. Blocks for DNS; raises ``OSError`` if the name is unknown."""
    found: dict[Address, None] = {}
    try:
        answers = socket.getaddrinfo(_as_asked(host), port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        # A label that is empty or too long does not get as far as the resolver.
        raise OSError(f"{host!r} cannot be a host name: {error}") from error
    for family, _, _, _, sockaddr in answers:
        if family in (socket.AF_INET, socket.AF_INET6):
            found[Address(family, *sockaddr)] = None
    return list(found)


def _as_asked(host: str) -> str | bytes:
    """The host for the resolver: in bytes if it is ASCII, and else would be checked only.

    For text Python loads its codec of international names: half of what a first constructor takes.
    """
    labels = host.removesuffix(".").split(".")
    if host.isascii() and all(1 <= len(label) <= _LONGEST_LABEL for label in labels):
        return host.encode()
    return host


def canonical_name(address: Address) -> str:
    """The host name of an address, or its text if it has none. Blocks for DNS."""
    try:
        name, _, _ = socket.gethostbyaddr(address.ip)
    except OSError:
        return address.ip
    return name


def resolve(host: str, port: int, resolver: Resolver = resolve_by_system) -> list[Address]:
    """Addresses to try for a host, in order: all of one family, IPv4 if there is any.

    One family, because a host that answers on both usually listens on one (contract P-G.4.5); IPv4,
    because Java's client takes it first and "localhost" brokers listen there.

    Args:
        host: name, or an address as text.
        port: port.
        resolver: default asks the system.

    Raises:
        OSError: the name is unknown, or has no address.
    """
    addresses = resolver(host, port)
    first_family = [a for a in addresses if a.family == socket.AF_INET] or list(addresses)
    if not first_family:
        raise OSError(f"host name {host!r} has no address")
    return first_family


class NodeAddresses:
    """The addresses of one host, taken in turn (contract P-G.4.5, KIP-302). One thread.

    They are resolved when the first one is needed, and again when all were tried or after
    ``clear``. A fresh list does not start with the address tried last if there is another, because
    that one may be what failed.

    Args:
        host: name, or an address as text.
        port: port.
        resolver: default asks the system.

    Source: Java's ``ClusterConnectionStates.NodeConnectionState``.
    """

    __slots__ = ("_addresses", "_index", "_last_tried", "_resolver", "host", "port")

    def __init__(self, host: str, port: int, resolver: Resolver = resolve_by_system) -> None:
        self.host = host
        self.port = port
        self._resolver = resolver
        self._addresses: list[Address] = []
        self._index = 0
        self._last_tried: Address | None = None

    def current(self) -> Address:
        """The address to try now. Blocks for DNS when a new list is needed.

        Raises:
            OSError: the name does not resolve.
        """
        if not self._addresses:
            self._addresses = resolve(self.host, self.port, self._resolver)
            is_repeat = len(self._addresses) > 1 and self._addresses[0] == self._last_tried
            self._index = 1 if is_repeat else 0
        self._last_tried = self._addresses[self._index]
        return self._last_tried

    def move_to_next(self) -> None:
        """Let the next ``current`` give the next address, or a new list after the last one."""
        if self._addresses:
            self._index = (self._index + 1) % len(self._addresses)
            if self._index == 0:
                self._addresses = []

    def clear(self) -> None:
        """Let the next ``current`` resolve again: the host may have moved."""
        self._addresses = []


class BootstrapNodes(NamedTuple):
    """Where to start from, with ids -1, -2, ... over both.

    Attributes:
        first: what to ask at first.
        later: what DNS does not know yet: to ask when all of the first have failed.
    """

    first: tuple[Node, ...]
    later: tuple[Node, ...] = ()


def bootstrap_nodes(
    servers: Iterable[BootstrapAddress],
    dns_lookup: str,
    resolver: Resolver = resolve_by_system,
    name_of: Callable[[Address], str] = canonical_name,
) -> BootstrapNodes:
    """The nodes to start from (contract P-A.1.4, P-H.5.1). Blocks for DNS.

    A server that does not resolve is put back with a warning.

    Args:
        servers: ``bootstrap_servers``.
        dns_lookup: "use_all_dns_ips": one node a server; its addresses are taken in turn when it
            is connected. "resolve_canonical_bootstrap_servers_only": one node for the canonical
            host name of each of its addresses, for a round-robin DNS entry with TLS or Kerberos;
            none for one that does not resolve.
        resolver: default asks the system.
        name_of: canonical host name of an address; default asks the system.

    Raises:
        ConfigError: no server resolves.
    """
    found: dict[BootstrapAddress, None] = {}
    unknown: dict[BootstrapAddress, None] = {}
    failures: list[str] = []
    for server in servers:
        addresses = _addresses_of(server, server, resolver, failures)
        if dns_lookup != "resolve_canonical_bootstrap_servers_only":
            (found if addresses else unknown)[server] = None
            continue
        for address in addresses:
            canonical = BootstrapAddress(name_of(address), server.port)
            if _addresses_of(canonical, server, resolver, failures):
                found[canonical] = None
    if not found:
        raise ConfigError(
            "No resolvable bootstrap urls given in bootstrap.servers: "
            f"{'; '.join(failures)}: check their spelling and this machine's resolver",
            key="bootstrap_servers",
        )
    return BootstrapNodes(_numbered(found, 0), _numbered(unknown, len(found)))


def unresolved_nodes(servers: Iterable[BootstrapAddress]) -> BootstrapNodes:
    """The same without DNS, for a proxy that resolves the names."""
    return BootstrapNodes(_numbered(servers, 0))


def _numbered(servers: Iterable[BootstrapAddress], before: int) -> tuple[Node, ...]:
    """Nodes for the servers; their ids go on after so many others."""
    return tuple(Node(-1 - index, host, port) for index, (host, port) in enumerate(servers, before))


def _addresses_of(
    address: BootstrapAddress,
    server: BootstrapAddress,
    resolver: Resolver,
    failures: list[str],
) -> Sequence[Address]:
    """The addresses of one host; none: `failures` has got the reason."""
    try:
        addresses = resolver(address.host, address.port)
    except OSError as error:
        why = f"host name {address.host!r} does not resolve: {error}"
    else:
        if addresses:
            return addresses
        why = f"host name {address.host!r} has no address"
    _LOG.warning("bootstrap server %s: %s", server, why)
    failures.append(f"{server}: {why}")
    return ()
