"""Targets that speak TLS with a peer whose bytes are changed on their way, in memory.

The first byte of an input chooses the version and our side; the rest are edits of what the peer
sends, two bytes each and what they insert: pass so many, flip a byte, drop, insert. What follows
the last edit arrives as it is. So handshakes and records, certificates and alerts are damaged in
any place, and come in any pieces; without edits all is well.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fastprod._core.testing.selector_harness import SelectorForTest
from fastprod._core.tls.tls_context import TlsContext
from support.fuzz.framing import LocalListener
from support.fuzz.target import Target
from support.oracle.framing import frame
from support.security.authority import CertificateAuthority
from support.security.tls_peer import server_context

_PASS, _FLIP, _DROP, _INSERT = range(4)
_MOST_DROPPED, _MOST_INSERTED = 16, 64
_PART_BYTES = 1 << 16
_TURNS = 1_000
_VERSIONS = (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)
_SAID = (b"one", b"", b"three" * 50)
_ASKED = frame(b"asked")


class Edits:
    """What is changed of a stream.

    Args:
        data: two bytes for each edit, and behind an insertion what it inserts.

    Attributes:
        is_sound: nothing was changed so far.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.is_sound = True

    def applied(self, stream: bytes) -> Iterator[bytes]:
        """The next part of the stream, in the pieces in which it arrives."""
        while stream and len(self._data) >= 2:
            kind, count = self._data[0] % 4, self._data[1]
            self._data = self._data[2:]
            self.is_sound &= kind == _PASS
            if kind == _PASS:
                yield stream[: count + 1]
                stream = stream[count + 1 :]
            elif kind == _FLIP:
                yield bytes([stream[0] ^ (count | 1)])
                stream = stream[1:]
            elif kind == _DROP:
                stream = stream[1 + count % _MOST_DROPPED :]
            else:
                size = 1 + count % _MOST_INSERTED
                yield self._data[:size]
                self._data = self._data[size:]
        yield stream


class _Contexts:
    """A certificate that all trust; made with the first connection."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory(prefix="fastprod-fuzz-") as folder:
            authority = CertificateAuthority(Path(folder))
            identity = authority.issue("fuzz")
            self._trusted = authority.certificate.read_bytes()
            self._certificate = identity.certificate.read_bytes()
            self._key = identity.key.read_bytes()
            self._servers = [server_context(identity, each) for each in _VERSIONS]
            self._clients = [ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in _VERSIONS]
            for context, version in zip(self._clients, _VERSIONS, strict=True):
                context.minimum_version = context.maximum_version = version
                context.check_hostname = False
                context.load_verify_locations(authority.certificate)
                context.load_cert_chain(identity.certificate, identity.key)
        self._as_client = TlsContext(ca=self._trusted, check_host_name=False)
        self._as_server = TlsContext(
            ca=self._trusted,
            certificate=self._certificate,
            private_key=self._key,
            server_side=True,
            client_auth="requested",
        )

    def pair(self, version: int, we_serve: bool) -> tuple[TlsContext, ssl.SSLContext]:
        """Ours, and that of the peer."""
        if we_serve:
            return self._as_server, self._clients[version]
        return self._as_client, self._servers[version]


class _Peer:
    """Python's TLS at the other end, one step at a time."""

    def __init__(self, context: ssl.SSLContext, we_serve: bool) -> None:
        self.incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self.incoming, self._outgoing, server_side=not we_serve)
        self._is_open = False
        self.received = b""

    def step(self) -> bytes:
        """Take what came; what is to be sent now."""
        with contextlib.suppress(ssl.SSLError):
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
                self._tls.write(b"".join(map(frame, _SAID)))
            while data := self._tls.read(_PART_BYTES):
                self.received += data
        return self._outgoing.read()


class _Tls:
    """Connections of one selector, one for each input."""

    def __init__(self) -> None:
        # Made with the first connection: targets are also made to be listed.
        self._contexts: _Contexts | None = None
        self._listener: LocalListener | None = None
        self._selector: SelectorForTest | None = None
        self._channel_id = -1
        self._has_asked = False
        self._frames: list[bytes] = []
        self._is_gone = False

    def __call__(self, data: bytes) -> None:
        if self._contexts is None or self._selector is None or self._listener is None:
            self._contexts, self._selector = _Contexts(), SelectorForTest()
            self._listener = LocalListener()
        head = data[0] if data else 0
        we_serve = bool(head & 2)
        ours, theirs = self._contexts.pair(head & 1, we_serve)
        peer, edits = _Peer(theirs, we_serve), Edits(data[1:])
        self._frames, self._is_gone, self._has_asked = [], False, False
        if we_serve:
            near, far = socket.socketpair()
            self._channel_id = self._selector.register(near.detach(), tls=ours)
        else:
            self._channel_id = self._selector.connect(self._listener.path, tls=ours)
            far = self._listener.accept()
        far.setblocking(False)
        with far:
            self._talk(self._selector, far, peer, edits)
        # Nothing that was changed gets through; what was not arrives.
        assert self._frames == list(_SAID[: len(self._frames)])
        assert _ASKED.startswith(peer.received)
        if edits.is_sound:
            assert (len(self._frames), peer.received) == (len(_SAID), _ASKED)

    def _talk(
        self, selector: SelectorForTest, far: socket.socket, peer: _Peer, edits: Edits
    ) -> None:
        """Until nobody says anything any more; then the peer leaves, which is noticed."""
        is_quiet = False
        for _ in range(_TURNS):
            if is_quiet:
                with contextlib.suppress(OSError):
                    far.shutdown(socket.SHUT_WR)
            self._poll(selector)
            came = _received(far)
            peer.incoming.write(came)
            sent = peer.step()
            if not is_quiet:
                for piece in edits.applied(sent):
                    with contextlib.suppress(OSError):
                        far.sendall(piece)
                    self._poll(selector)
            if self._is_gone:
                return
            is_quiet = is_quiet or not (came or sent)
        raise AssertionError("the end of a connection was not noticed")

    def _poll(self, selector: SelectorForTest) -> None:
        if self._is_gone:
            return
        events = selector.poll(0)
        self._frames += [data for _, data in events.receives]
        self._is_gone = bool(events.disconnected)
        if not self._has_asked and not self._is_gone:
            # Before the end of the handshake nothing can be sent.
            self._has_asked = selector.send(self._channel_id, [_ASKED]) != "CLOSED"


def _received(far: socket.socket) -> bytes:
    try:
        return far.recv(_PART_BYTES)
    except OSError:
        return b""  # there is nothing, or the other end had enough


def tls_targets() -> list[Target]:
    """One for both sides and both versions."""
    seeds = [bytes([head]) for head in range(4)]
    seeds += [bytes([head, _PASS, 0, _PASS, 4, _PASS, 0]) for head in range(4)]
    seeds += [bytes([head, _INSERT, 4]) + b"GET /" for head in (0, 2)]
    seeds += [
        bytes([head, *[_PASS, 255] * passed, _FLIP, 9]) for head in range(4) for passed in (1, 6)
    ]
    return [Target("tls", _Tls(), (), tuple(seeds), is_native=True)]
