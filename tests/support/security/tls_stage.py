"""TlsStage: a Selector that connects by TLS, and Python's own TLS at the other end."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable

from fastprod._core.testing.selector_harness import Disconnect
from fastprod._core.tls.tls_context import TlsContext
from support.oracle.loopback import PATIENCE_SECONDS, Loopback
from support.security.authority import Identity
from support.security.tls_peer import TlsPeer, server_context


def frame(payload: bytes) -> bytes:
    """A payload with its size before it."""
    return struct.pack(">i", len(payload)) + payload


class TlsStage:
    """Opens connections, and turns both ends until something is so.

    Args:
        loopback: the selector and its listener.
        identity: the server's certificate.
        context: the client's.
    """

    def __init__(self, loopback: Loopback, identity: Identity, context: TlsContext) -> None:
        self.loopback = loopback
        self.identity = identity
        self.context = context
        self.peers: list[TlsPeer] = []

    def start(
        self,
        server: ssl.SSLContext | None = None,
        client: TlsContext | None = None,
        host: str = "localhost",
        segment_bytes: int | None = None,
    ) -> tuple[int, TlsPeer]:
        """A channel that begins its handshake, and the server at the other end."""
        channel = self.loopback.selector.connect(
            self.loopback.address, tls=client or self.context, server_name=host
        )
        peer = TlsPeer(
            self.loopback.accept(),
            server or server_context(self.identity),
            segment_bytes=segment_bytes,
        )
        self.peers.append(peer)
        return channel, peer

    def open(
        self,
        server: ssl.SSLContext | None = None,
        client: TlsContext | None = None,
        host: str = "localhost",
        segment_bytes: int | None = None,
    ) -> tuple[int, TlsPeer]:
        """The same after the handshake."""
        channel, peer = self.start(server, client, host, segment_bytes)
        self.until(lambda: channel in self.loopback.connected and peer.is_open)
        return channel, peer

    def accept(self, server: TlsContext, client: ssl.SSLContext) -> tuple[int, TlsPeer]:
        """A channel of a server, and the client that begins its handshake."""
        connection = socket.create_connection(self.loopback.address)
        accepted, _ = self.loopback.listener.accept()
        channel = self.loopback.selector.register(accepted.detach(), tls=server)
        self.loopback.peers.append(connection)
        peer = TlsPeer(connection, client, host="localhost")
        self.peers.append(peer)
        return channel, peer

    def until(self, done: Callable[[], bool]) -> None:
        """Turn both ends until `done()`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < deadline, f"not so after {PATIENCE_SECONDS} s: {self!r}"
            for peer in self.peers:
                peer.step()
            self.loopback.poll(timeout_ms=1)

    def end_of(self, channel: int) -> Disconnect:
        """How the channel ends."""
        self.until(lambda: channel in self.loopback.gone)
        return self.loopback.gone[channel]

    def exchange(self, channel: int, peer: TlsPeer, payload: bytes) -> bytes:
        """Send a frame to the peer, which sends it back; what came back."""
        sent = frame(payload)
        before = len(self.loopback.received[channel])
        peer.received.clear()
        status = self.loopback.selector.send(channel, [sent])
        assert status in {"OK", "BLOCKED"}
        self.until(lambda: len(peer.received) == len(sent))
        assert bytes(peer.received) == sent
        peer.send(sent)
        self.until(lambda: len(self.loopback.received[channel]) > before)
        return self.loopback.received[channel][-1]

    def __repr__(self) -> str:
        failures = [peer.failure for peer in self.peers]
        return f"{self.loopback!r} failures={failures}"
