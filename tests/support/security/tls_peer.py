"""TlsPeer: the other end of a connection by TLS, by Python's `ssl`, one step at a time."""

from __future__ import annotations

import socket
import ssl

from support.security.authority import Identity

_PART_BYTES = 1 << 16


class TlsPeer:
    """TLS over a socket, without a thread: `step` moves what can be moved.

    Attributes:
        received: what came, decrypted.
        failure: what ended it, if it was not the other side's closing.
        is_open: the handshake is over.
        at_end: the other side closed its connection.
        said_goodbye: it said so in TLS (close_notify).

    Args:
        connection: a connected socket.
        context: a server's, or a client's with `host`.
        host: whom a client asks for; None: it is a server.
        segment_bytes: the most that one segment holds; None: no bound.
    """

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        host: str | None = None,
        segment_bytes: int | None = None,
    ) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._segment_bytes = segment_bytes
        self._unsent = b""
        self.received = bytearray()
        self.failure: Exception | None = None
        self.is_open = False
        self.at_end = False
        self.said_goodbye = False

    def step(self) -> None:
        """Read, answer, write: as much as goes without waiting."""
        self._take()
        try:
            if not self.is_open:
                self.tls.do_handshake()
                self.is_open = True
            while data := self.tls.read(_PART_BYTES):
                self.received += data
            self.said_goodbye = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.failure = self.failure or error
        self.flush()

    def _take(self) -> None:
        try:
            while data := self.connection.recv(_PART_BYTES):
                self._incoming.write(data)
            self.at_end = True
        except BlockingIOError:
            pass
        except OSError as error:
            self.at_end = True
            self.failure = self.failure or error

    def send(self, data: bytes) -> None:
        """Encrypt `data`; it leaves with this and the next steps."""
        self.tls.write(data)
        self.flush()

    def encrypted(self, data: bytes) -> bytes:
        """Return the bytes that `send` would put on the wire."""
        self.tls.write(data)
        return self._outgoing.read()

    def flush(self) -> None:
        """Give the socket what is encrypted: one segment, or all that it takes."""
        self._unsent += self._outgoing.read()
        size = self._segment_bytes or len(self._unsent)
        try:
            self._unsent = self._unsent[self.connection.send(self._unsent[:size]) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.failure = self.failure or error


def server_context(
    identity: Identity, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """A server's, with one version of TLS alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    context.minimum_version = context.maximum_version = version
    return context
