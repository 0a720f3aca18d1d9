"""Connections within this machine, and what has to be read of them, the slow and obvious way."""

from __future__ import annotations

import socket
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_PREFIX = struct.Struct(">i")
_TURNS = 10_000


class Read(NamedTuple):
    """What is read of a stream.

    Attributes:
        frames: whole ones, without their sizes.
        reason: of the end, a name of `CLOSE_REASONS`.
        bad_size: the size that ended it; 0: none did.
    """

    frames: list[bytes]
    reason: str
    bad_size: int = 0


def read_frames(stream: bytes, most_bytes: int) -> Read:
    """What is read of a stream that ends where it ends."""
    frames: list[bytes] = []
    while len(stream) >= _PREFIX.size:
        (size,) = _PREFIX.unpack_from(stream)
        if size < 0:
            return Read(frames, "BAD_FRAME", size)
        if size > most_bytes:
            return Read(frames, "FRAME_TOO_LARGE", size)
        if len(stream) < _PREFIX.size + size:
            break
        frames.append(stream[_PREFIX.size : _PREFIX.size + size])
        stream = stream[_PREFIX.size + size :]
    return Read(frames, "REMOTE")


def pieces(stream: bytes, size: int) -> Iterator[bytes]:
    """A stream in pieces of so many bytes; 0: in one."""
    step = size or max(len(stream), 1)
    for at in range(0, len(stream), step):
        yield stream[at : at + step]


class LocalListener:
    """What a client connects to where nothing is lost on the way, and nothing takes time.

    Attributes:
        path: its address.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fastprod-fuzz-")
        self.path = str(Path(self._folder.name) / "peer")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()

    def accept(self) -> socket.socket:
        """The other end of the connection that was begun."""
        return self._socket.accept()[0]


def say(far: socket.socket, stream: bytes, size: int, poll: Callable[[], bool]) -> None:
    """Send a stream in such pieces, polling after each, and then the end, until that is noticed.

    Args:
        far: the other end of a connection within this machine.
        stream: all of it.
        size: of the pieces.
        poll: polls once, without waiting; whether the connection has ended.
    """
    is_over = False
    for piece in pieces(stream, size):
        try:
            far.sendall(piece)
        except OSError:
            break  # the other end had enough
        is_over = poll()
        if is_over:
            return
    far.shutdown(socket.SHUT_WR)
    for _ in range(_TURNS):
        if poll():
            return
    raise AssertionError("the end of the stream was not noticed")
