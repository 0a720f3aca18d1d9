"""RequestSpotter: finds requests in a stream of bytes, and what their heads say."""

from __future__ import annotations

import struct
from typing import NamedTuple

INIT_PRODUCER_ID = 22
_SIZE_BYTES = 4
_HEAD_BYTES = 512  # enough for the client id
_FIXED = struct.Struct("!HHih")  # API key, version, correlation id, size of the client id


class Spotted(NamedTuple):
    """A request that begins.

    Attributes:
        api_key: Kafka's number of the API.
        client_id: of who sends it.
    """

    api_key: int
    client_id: str


class RequestSpotter:
    """Fed with what a client sends, in whatever pieces, tells which requests are in them."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0  # of the request, behind its head

    def feed(self, data: bytes) -> list[Spotted]:
        """The requests whose head is complete with this piece."""
        found = []
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            step = min(self._wanted - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == self._wanted > _SIZE_BYTES:
                found.append(_spotted(bytes(self._head[_SIZE_BYTES:])))
                self._left = self._size - (len(self._head) - _SIZE_BYTES)
                self._head.clear()
        return found

    @property
    def _size(self) -> int:
        return int.from_bytes(self._head[:_SIZE_BYTES])

    @property
    def _wanted(self) -> int:
        """Bytes of the head, with the size before it, as far as it is known."""
        if len(self._head) < _SIZE_BYTES:
            return _SIZE_BYTES
        return _SIZE_BYTES + min(max(self._size, 1), _HEAD_BYTES)


class FrameCounter:
    """Counts the frames in a stream of bytes, each when its last byte has come."""

    def __init__(self) -> None:
        self._size = b""
        self._left = 0

    def feed(self, data: bytes) -> int:
        """How many end in this piece."""
        count = at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                count += not self._left
                continue
            step = min(_SIZE_BYTES - len(self._size), len(data) - at)
            self._size += data[at : at + step]
            at += step
            if len(self._size) == _SIZE_BYTES:
                self._left = int.from_bytes(self._size)
                self._size = b""
                count += not self._left
        return count


def _spotted(head: bytes) -> Spotted:
    if len(head) < _FIXED.size:  # not Kafka's
        return Spotted(-1, "")
    api_key, _, _, size = _FIXED.unpack_from(head)
    client_id = head[_FIXED.size : _FIXED.size + max(size, 0)].decode(errors="replace")
    return Spotted(api_key, client_id)
