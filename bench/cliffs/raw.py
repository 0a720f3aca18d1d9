"""RawConnection: single requests, for what no client would ask."""

from __future__ import annotations

import socket
import struct
import time
from typing import Self

from support.oracle.frames import FrameReader, FrameWriter, response_reader

_METADATA = 3
_METADATA_VERSION = 8
_API_VERSIONS = 18
_REPLY_TIMEOUT_S = 300.0


class RawConnection:
    """One connection, one request at a time. Use it in a `with`.

    Args:
        address: "host:port".
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_REPLY_TIMEOUT_S)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, frame: bytes) -> bytes:
        """Send a whole frame; return the answer without its size.

        Raises:
            OSError: the connection was closed, or there was no answer in time.
        """
        self._socket.sendall(frame)
        size = self._file.read(4)
        answer = self._file.read(*struct.unpack(">i", size)) if len(size) == 4 else b""
        if len(answer) < 4:
            raise ConnectionError("closed without an answer")
        return answer

    def ask_topics(self, names: list[str] | None) -> dict[str, int]:
        """Metadata: the error code of each topic, made if it was not there; None: of all."""
        body = FrameWriter()
        body.count(None if names is None else len(names), False)
        for name in names or ():
            body.string(name, False)
        body.boolean(True)  # make what is not there
        body.boolean(False)
        body.boolean(False)
        frame = body.request(_METADATA, _METADATA_VERSION, 1, "cliffs", flexible=False)
        _, reader = response_reader(self.ask(frame), "Metadata", header_tags=False)
        reader.int32()  # throttle time
        for _ in range(reader.length(False)):
            reader.int32()
            reader.string(False)
            reader.int32()
            reader.nullable_string(False)
        reader.nullable_string(False)  # cluster id
        reader.int32()  # controller
        return dict(_topic(reader) for _ in range(reader.length(False)))

    def answer_s(self) -> float:
        """How long ApiVersions takes."""
        frame = FrameWriter().request(_API_VERSIONS, 0, 1, "cliffs", flexible=False)
        started = time.perf_counter()
        self.ask(frame)
        return time.perf_counter() - started


def _topic(reader: FrameReader) -> tuple[str, int]:
    """Name and error code of the next topic of an answer."""
    error_code, name = reader.int16(), reader.string(False)
    reader.boolean()
    for _ in range(reader.length(False)):
        reader.take(14)  # error code, number, leader, epoch
        for _ in range(3):
            reader.take(4 * reader.length(False, 4))
    reader.int32()  # operations
    return name, error_code
