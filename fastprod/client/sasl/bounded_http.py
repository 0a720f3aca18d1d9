"""HTTP exchanges that end in time, however slowly and however much the other side sends."""

from __future__ import annotations

import functools
import http.client
import io
import socket
import ssl
import time
import urllib.parse
import urllib.request
from typing import Any, Final

MOST_BYTES: Final = 1_048_576
"""An answer may have so many, its headers included."""
_PART_BYTES: Final = 65_536


class Bounds:
    """What one exchange may take; its time runs from here on.

    Args:
        connect_s: until there is a connection, in seconds; None: that is a part of `answer_s`.
        answer_s: for all the rest, to the last byte of the answer, in seconds. A proxy's answer and
            the handshake of TLS are parts of it.
    """

    def __init__(self, connect_s: float | None, answer_s: float) -> None:
        self._connect_s = connect_s
        self._answer_s = answer_s
        self._end_s = time.monotonic() + (connect_s or answer_s)
        self._left_bytes = MOST_BYTES
        self.is_connected = False

    def connected(self) -> None:
        """There is a connection."""
        self.is_connected = True
        if self._connect_s is not None:
            self._end_s = time.monotonic() + self._answer_s

    def left_s(self) -> float:
        """Seconds that are left.

        Raises:
            TimeoutError: there are none.
        """
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s

    def take(self, count: int) -> None:
        """Count bytes of the answer.

        Raises:
            ValueError: there are too many.
        """
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise ValueError(f"its answer is larger than {MOST_BYTES:,} bytes")


def open_bounded(
    request: urllib.request.Request, bounds: Bounds, context: ssl.SSLContext | None
) -> http.client.HTTPResponse:
    """Send a request, and return its answer, of which the headers are read.

    A proxy is used if the environment names one (https_proxy, no_proxy); an answer that points
    elsewhere is an error: what the request holds must not follow it.

    Args:
        request: whom to ask, and what.
        bounds: also those of reading the answer's body.
        context: for https.

    Raises:
        urllib.error.HTTPError: its status is no 2xx; its body can be read.
        OSError, http.client.HTTPException: there is no answer. A TimeoutError may be the reason of
            an urllib.error.URLError.
        ValueError: the answer is too large.

    Blocks: as long as the bounds allow, but for what DNS takes, which its resolver bounds.
    """
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect(), _Http(bounds)]
    if context is not None:
        name = urllib.parse.urlsplit(request.full_url).hostname or ""
        handlers.append(_Https(bounds, context, name))
    opener = urllib.request.build_opener(*handlers)
    answer: http.client.HTTPResponse = opener.open(request)
    return answer


def read_body(answer: http.client.HTTPResponse) -> bytes:
    """Return the body of an answer.

    Raises:
        OSError, http.client.HTTPException, ValueError: as `open_bounded`.
    """
    parts = []
    while part := answer.read1(_PART_BYTES):
        parts.append(part)
    if answer.length:  # read1 takes the end of a connection for that of the answer
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(parts)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


class _Http(urllib.request.HTTPHandler):
    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._bounds = bounds

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        made: Any = functools.partial(_Connection, bounds=self._bounds)
        return self.do_open(made, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, bounds: Bounds, context: ssl.SSLContext, name: str) -> None:
        super().__init__(context=context)
        self._made: Any = functools.partial(
            _SecureConnection, bounds=bounds, context=context, name=name
        )

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._made, request)


class _Connection(http.client.HTTPConnection):
    """A connection each of whose waits ends by the same time.

    The time-out of a socket, which is all that http.client knows, begins anew with each byte.
    """

    def __init__(self, *args: Any, bounds: Bounds, **words: Any) -> None:
        super().__init__(*args, **words)
        self._bounds = bounds
        self._create_connection = self._first_connection  # what http.client connects by
        made: Any = functools.partial(_answer, bounds)
        self.response_class = made

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self._bounds.left_s())
        super().send(data)

    def _first_connection(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Connect to the first of the host's addresses that takes it."""
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        failure = OSError("its host has no address")
        for number, each in enumerate(found):
            try:
                # One that does not answer leaves time for the others.
                made = _connected(each, self._bounds.left_s() / (len(found) - number))
            except OSError as error:
                failure = error
            else:
                self._bounds.connected()
                return made
        raise failure


class _SecureConnection(_Connection):
    """The same over TLS, through a proxy's tunnel if there is one."""

    default_port = http.client.HTTPS_PORT

    def __init__(self, *args: Any, context: ssl.SSLContext, name: str, **words: Any) -> None:
        super().__init__(*args, **words)
        self._context = context
        self._name = name

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(self._bounds.left_s())
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)


class _Reading(io.RawIOBase):
    """What a socket receives, within the bounds."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        self._file = sock.makefile("rb", buffering=0)  # keeps the socket open
        self._sock = sock
        self._bounds = bounds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._bounds.left_s())
        count = self._file.readinto(buffer) or 0
        self._bounds.take(count)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()

    def makefile(self, mode: str) -> io.BufferedReader:
        """What http.client asks a socket for."""
        return io.BufferedReader(self)


def _answer(bounds: Bounds, sock: socket.socket, *args: Any, **words: Any) -> Any:
    reading: Any = _Reading(sock, bounds)
    return http.client.HTTPResponse(reading, *args, **words)


def _connected(address: tuple[Any, ...], timeout_s: float) -> socket.socket:
    """Connect to one address of getaddrinfo's."""
    family, kind, protocol, _, where = address
    made = socket.socket(family, kind, protocol)
    try:
        made.settimeout(timeout_s)
        made.connect(where)
    except BaseException:
        made.close()
        raise
    return made
