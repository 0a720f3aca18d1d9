"""Requests without a network, for what faults do to them."""

from __future__ import annotations

import struct
from typing import Any, cast

from fastprod._core.io.server_selector import Frame
from fastprod.broker.faults.target import RequestTarget, api_key_of
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.request import (
    CloseConnectionResponse,
    NoOpResponse,
    Request,
    RequestHeader,
    Response,
    SendResponse,
    complete,
)


class Outlet:
    """A Processor's queue of responses and its socket in one.

    Attributes:
        pieces: what was written, one entry for each response.
        answers: how often a request was finished.
        is_closed: whether the connection was told to end.
    """

    def __init__(self) -> None:
        self.connection = Connection("a:1-b:2-0-0", 0, "PLAINTEXT", 0, ("a", 1), ("b", 2))
        self.pieces: list[bytes] = []
        self.answers = 0
        self.is_closed = False

    def send_response(self, response: Response) -> None:
        """Carry it out at once."""
        if isinstance(response, SendResponse):
            data = b"".join(bytes(memoryview(part)) for part in response.parts)
            assert response.size_bytes == len(data)
            if self.connection.is_open:
                self.pieces.append(data)
        elif isinstance(response, CloseConnectionResponse):
            self.is_closed = True
        else:
            assert isinstance(response, NoOpResponse)
        self.answers += response.is_answer
        complete(response)

    @property
    def written(self) -> bytes:
        return b"".join(self.pieces)

    def request(self, api: str = "Produce", version: int = 9, node_id: int = 0) -> Request:
        """A request whose answer comes here."""
        header = RequestHeader(api_key_of(api), version, 7, "test", 0)
        return Request(cast(Frame, bytearray()), header, self.connection, node_id, 0, self)


def framed(body: bytes) -> bytes:
    """`body` behind its size."""
    return struct.pack(">i", len(body)) + body


def target_of(api: str, message: Any, node_id: int = 0) -> RequestTarget:
    """A request as faults are aimed at it."""
    return RequestTarget(Outlet().request(api, node_id=node_id), message)
