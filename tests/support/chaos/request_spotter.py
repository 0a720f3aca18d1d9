"""RequestSpotter: finds the API keys of requests in a stream of bytes."""

from __future__ import annotations

import struct

_HEAD_BYTES = 6  # size and API key


class RequestSpotter:
    """Fed with what a client sends, in whatever pieces, tells which requests begin in them."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> list[int]:
        """The keys of the requests whose head is complete with this piece."""
        found = []
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            step = min(_HEAD_BYTES - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == _HEAD_BYTES:
                size, key = struct.unpack("!iH", self._head)
                found.append(key)
                self._left = max(size - 2, 0)
                self._head = b""
        return found
