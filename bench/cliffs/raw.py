"""RawConnection: single requests, for what no client would ask."""

from __future__ import annotations

import socket
import struct
import time
from typing import Self

from fastprod.api_versions import API_VERSIONS
from fastprod.frames import FrameWriter
from fastprod.messages import metadata_request, parse_metadata_response

_METADATA_VERSION = 8
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
        answer = self.ask(metadata_request(_METADATA_VERSION, 1, "cliffs", names))
        found = parse_metadata_response(_METADATA_VERSION, answer)
        return {topic.name: topic.error_code for topic in found.topics}

    def answer_s(self) -> float:
        """How long ApiVersions takes."""
        frame = FrameWriter().request(API_VERSIONS, 0, 1, "cliffs", flexible=False)
        started = time.perf_counter()
        self.ask(frame)
        return time.perf_counter() - started
