"""Requests of a client that says who it is, byte by byte."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any

from fastprod.broker.api_table import APIS
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeRequest
from support.oracle.loopback import read_exactly

HANDSHAKE, AUTHENTICATE = 17, 36
USERS = {"alice": "wonderland", "bob": "builder"}
ALICE = b"\0alice\0wonderland"
PLAIN = SaslHandshakeRequest(mechanism="PLAIN")
PATIENCE_S = 20.0


def payload(key: int, version: int, message: Any = None) -> bytes:
    """A request without its size."""
    tags = b"\0" if APIS[key].has_flexible_request_header(version) else b""
    body = b"" if message is None else b"".join(APIS[key].request.encode(version, message))
    return struct.pack(">hhih", key, version, 5, 2) + b"me" + tags + body


def body_of(key: int, version: int, answer: bytes) -> Any:
    """The message in an answer without its size."""
    header_bytes = 5 if APIS[key].has_flexible_response_header(version) else 4
    return APIS[key].response.decode(version, memoryview(bytearray(answer[header_bytes:])))


class SaslClient:
    """A connection to a broker that asks its clients who they are."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def say(self, data: bytes) -> None:
        self.sock.sendall(struct.pack(">i", len(data)) + data)

    def hear(self) -> bytes:
        (size,) = struct.unpack(">i", read_exactly(self.sock, 4))
        return read_exactly(self.sock, size)

    def ask(self, key: int, version: int, message: Any = None) -> Any:
        self.say(payload(key, version, message))
        return body_of(key, version, self.hear())

    def authenticate(self, token: bytes = ALICE, version: int = 1) -> Any:
        """The broker's answer to the token, behind a handshake."""
        assert self.ask(HANDSHAKE, 1, PLAIN).error_code == 0
        return self.ask(AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))

    def is_ended(self) -> bool:
        """Wait for the end; False if there are bytes instead."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_silent(self, for_s: float = 0.1) -> bool:
        """Whether nothing comes, no end either, for so long."""
        self.sock.settimeout(for_s)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(PATIENCE_S)
        return False

    def __enter__(self) -> SaslClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sock.close()
