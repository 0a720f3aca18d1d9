"""Targets that read what a peer sends: frames on both sides, and the answers of proxies.

The first byte of an input says how large the pieces are that the rest comes in. What is made of it
is compared with what slow and obvious code makes of it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

from fastprod._core.io.server_selector import ServerSelector
from fastprod._core.testing.selector_harness import Disconnect, SelectorForTest
from fastprod.client.connections.proxy import Proxy
from fastprod.security.proxy_settings import ProxySettings
from fastprod.security.secret import Secret
from support.fuzz.framing import LocalListener, Read, read_frames, say
from support.fuzz.target import Target

MOST_BYTES = 1_500
_POOL_BYTES = 100_000
_HTTP_BYTES = 4_096
_LINE_BYTES = 250
_SOCKS = Proxy(ProxySettings("socks5", "p", 1, username="u", password=Secret("w")))
_HTTP = Proxy(ProxySettings("http", "p", 1))
_ADDRESS_BYTES = {1: 4, 4: 16}


class Way(NamedTuple):
    """What a proxy's answers come to.

    Attributes:
        text: why it does not let the connection through; "": it does.
        rest: what follows is the broker's.
    """

    text: str
    rest: bytes = b""


class _Client:
    """A producer's end; one selector for all inputs, and its own connection for each."""

    def __init__(self) -> None:
        self._selector: SelectorForTest | None = None
        self.frames: list[bytes] = []
        self.gone: Disconnect | None = None

    @property
    def selector(self) -> SelectorForTest:
        """Made when it is needed: targets are also made to be listed."""
        if self._selector is None:
            self._selector = SelectorForTest(max_receive_bytes=MOST_BYTES)
        return self._selector

    def poll(self) -> bool:
        """Poll once; whether the connection has ended."""
        events = self.selector.poll(0)
        self.frames += [data for _, data in events.receives]
        for each in events.disconnected:
            self.gone = each
        return self.gone is not None

    def read(self, far: socket.socket, data: bytes) -> Disconnect:
        """Let the peer say all this; how the connection ended."""
        self.frames, self.gone = [], None
        say(far, data[1:], data[0] if data else 0, self.poll)
        assert self.gone is not None
        return self.gone

    def __call__(self, data: bytes) -> None:
        near, far = socket.socketpair()
        with far:
            self.selector.register(near.detach())
            gone = self.read(far, data)
        assert Read(self.frames, gone.reason, gone.bad_size) == read_frames(data[1:], MOST_BYTES)


class _Server:
    """A broker's end, which gives away the memory of frames."""

    def __init__(self) -> None:
        self._selector: ServerSelector | None = None
        self._read = Read([], "")

    @property
    def selector(self) -> ServerSelector:
        """As a client's."""
        if self._selector is None:
            self._selector = ServerSelector(MOST_BYTES, pool_bytes=_POOL_BYTES)
        return self._selector

    def _poll(self) -> bool:
        events = self.selector.poll(0)
        frames = [*self._read.frames, *(bytes(each) for each in events.receives)]
        self._read = self._read._replace(frames=frames)
        for each in events.disconnected:
            self._read = Read(frames, each.reason, each.bad_size)
        return bool(self._read.reason)

    def __call__(self, data: bytes) -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        self._read = Read([], "")
        with far:
            self.selector.register(near.detach())
            say(far, data[1:], data[0] if data else 0, self._poll)
        assert self._read == read_frames(data[1:], MOST_BYTES)
        assert self.selector.held_bytes == 0


class _Proxied:
    """A connection through a proxy, which says what the input says, and then is the broker.

    Args:
        plan: what is said to the proxy.
        way: what has to become of what it says.
    """

    def __init__(self, plan: bytes, way: Callable[[bytes], Way]) -> None:
        self._plan = plan
        self._way = way
        self._client = _Client()
        self._listener: LocalListener | None = None

    def __call__(self, data: bytes) -> None:
        if self._listener is None:
            self._listener = LocalListener()
        self._client.selector.connect(self._listener.path, proxy=self._plan)
        with self._listener.accept() as far:
            gone = self._client.read(far, data)
        text, rest = self._way(data[1:])
        if text:
            assert (gone.reason, gone.text, self._client.frames) == ("PROXY", text, [])
            return
        found = Read(self._client.frames, gone.reason, gone.bad_size)
        assert found == read_frames(rest, MOST_BYTES)


_LOST = Way("lost=1")


def _socks_way(said: bytes) -> Way:
    """RFC 1928 and RFC 1929; user and password are known."""
    if len(said) < 2:
        return _LOST
    if said[0] != 5:
        return Way(f"socks_version={said[0]}")
    if said[1] not in (0, 2):
        return Way(f"socks_method={said[1]}")
    has_password, said = said[1] == 2, said[2:]
    if has_password:
        if len(said) < 2:
            return _LOST
        if said[1]:
            return Way(f"socks_password={said[1]}")
        said = said[2:]
    if len(said) < 4:
        return _LOST
    if said[0] != 5:
        return Way(f"socks_version={said[0]}")
    if said[1]:
        return Way(f"socks_reply={said[1]}")
    if said[3] == 3:
        address_bytes = 1 + said[4] if len(said) > 4 else len(said)
    elif said[3] in _ADDRESS_BYTES:
        address_bytes = _ADDRESS_BYTES[said[3]]
    else:
        return Way(f"socks_address={said[3]}")
    end = 4 + address_bytes + 2
    return Way("", said[end:]) if len(said) >= end else _LOST


def _http_way(said: bytes) -> Way:
    """RFC 9110: any 2xx is a yes."""
    head, blank, rest = said.partition(b"\r\n\r\n")
    if not blank or len(head + blank) > _HTTP_BYTES:
        return _LOST if len(said) < _HTTP_BYTES else Way(f"http_bytes={_HTTP_BYTES}")
    answer = head + blank
    if len(answer) >= 12 and answer.startswith(b"HTTP/1.") and answer[8:10] == b" 2":
        return Way("", rest)
    text = bytearray()
    for byte in answer[:_LINE_BYTES]:
        if not 0x20 <= byte <= 0x7E:
            break
        text.append(byte)
    return Way(f"http={text.decode()}")


def connection_targets() -> list[Target]:
    """Each reader of a peer's bytes once."""
    frames = b"\0\0\0\5hello\0\0\0\0\0\0\0\1x"
    streams = (
        *(bytes([size]) + frames for size in (0, 1, 3)),
        b"\1" + frames + b"\xff\xff\xff\xff",
        b"\2" + frames + b"\0\1\0\0" + frames,
        b"\x40\0\0\5\xdc" + bytes(MOST_BYTES) + frames,
    )
    socks = (b"\5\2", b"\1\0", b"\5\0\0\3\4here\0\x50" + frames)
    no_password = b"\5\0" + b"\5\0\0\1\x7f\0\0\1\0\x50" + frames
    http = b"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n" + frames
    refusals = (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b"SSH-2.0-x\r\n\r\n")
    return [
        Target("client-frames", _Client(), (), streams, is_native=True),
        Target("server-frames", _Server(), (), streams, is_native=True),
        Target(
            "socks-answers",
            _Proxied(_SOCKS.plan("b.test", 9092), _socks_way),
            (),
            (b"\1" + b"".join(socks), b"\0" + no_password, b"\1\5\0\5\5\0\1"),
            is_native=True,
        ),
        Target(
            "http-answers",
            _Proxied(_HTTP.plan("b.test", 9092), _http_way),
            (),
            (b"\1" + http, *(b"\0" + each for each in refusals)),
            is_native=True,
        ),
    ]
