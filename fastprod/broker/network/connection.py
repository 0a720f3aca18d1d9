"""One accepted connection, as the layers above the sockets know it."""

from __future__ import annotations

import contextlib
import socket
from typing import Final, NamedTuple

from fastprod.broker.network.mute_state import MuteState

Address = tuple[str, int]

ANONYMOUS: Final = "User:ANONYMOUS"


class ClientSoftware(NamedTuple):
    """What the client says of itself in ApiVersions v3 and later (KIP-511, B-A3.8)."""

    name: str
    version: str


UNKNOWN_SOFTWARE: Final = ClientSoftware("unknown", "unknown")


def connection_id(local: Address, remote: Address, processor_id: int, index: int) -> str:
    """Kafka's name of a connection: localHost:localPort-remoteHost:remotePort-processor-index.

    The index keeps the late response of an old connection from a new one with the same addresses
    (B-A3.2).
    """
    return f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}-{processor_id}-{index}"


def canonical_address(address: str) -> str:
    """Return an IPv4 address inside an IPv6 one as IPv4: both are the same client."""
    return address.removeprefix("::ffff:")


def hang_up(sock: socket.socket) -> None:
    """Close a connection for its client at once, even if a child of os.fork has a copy of it.

    `close` marks the socket as closed before it calls the system. A child that is forked in between
    has a descriptor that it knows nothing of, and holds the connection for as long as it lives.
    """
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


class Connection:
    """An accepted connection. Its Processor's thread alone changes it, but for `client_software`.

    Attributes:
        id: Kafka's connection id (B-A3.2).
        channel_id: the selector's number of it; never used twice by one Processor.
        listener_name: listener it came in on.
        processor_id: Processor that serves it.
        local_address: (host, port) of this end.
        remote_address: (host, port) of the client.
        principal: who the client is; ANONYMOUS without authentication.
        is_named: whether its certificate, if it has one, has been looked at.
        client_software: set by whoever handles ApiVersions v3 and later (B-A3.8); any thread.
        is_open: False once its Processor has closed it; any thread may read it.
        mute_state: why it is not read (B-A3.11).
    """

    __slots__ = (
        "channel_id",
        "client_software",
        "id",
        "is_named",
        "is_open",
        "listener_name",
        "local_address",
        "mute_state",
        "principal",
        "processor_id",
        "remote_address",
    )

    def __init__(
        self,
        id: str,
        channel_id: int,
        listener_name: str,
        processor_id: int,
        local_address: Address,
        remote_address: Address,
    ) -> None:
        self.id = id
        self.channel_id = channel_id
        self.listener_name = listener_name
        self.processor_id = processor_id
        self.local_address = local_address
        self.remote_address = remote_address
        self.principal = ANONYMOUS
        self.client_software = UNKNOWN_SOFTWARE
        self.is_named = False
        self.is_open = True
        self.mute_state = MuteState.NOT_MUTED

    @property
    def client_address(self) -> str:
        """The client's ip, by which connections are counted (B-A8)."""
        return self.remote_address[0]

    def __repr__(self) -> str:
        return f"Connection({self.id}, {self.listener_name})"
