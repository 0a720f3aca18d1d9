"""PlainChannel: requests to one broker in plain text, one after the other."""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.client.connections.addresses import Address

_LARGEST_ANSWER_BYTES: Final = 100 * 1024 * 1024
_TLS_ALERT: Final = b"\x15\x03"
_PRINTABLE: Final = range(0x20, 0x7F)


class PlainChannel:
    """A connection to one address of a broker, without TLS and SASL.

    Args:
        address: where to connect.
        timeout_s: limit of connecting, and of each request, in seconds.

    Raises:
        ConnectionTrouble: from every method but `close`, and from making one.

    Blocks: up to `timeout_s` a call.  Threads: one at a time.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.where = str(address)
        self._timeout_s = timeout_s
        self._has_answered = False
        self._socket = self._connected(address)

    def close(self) -> None:
        """Close the connection; calling it again does nothing."""
        self._socket.close()

    def _connected(self, address: Address) -> socket.socket:
        connecting = socket.socket(address.family, socket.SOCK_STREAM)
        connecting.settimeout(self._timeout_s)
        is_v4 = address.family == socket.AF_INET
        try:
            connecting.connect(address[1:3] if is_v4 else address[1:])
        except BaseException as error:
            connecting.close()
            if isinstance(error, TimeoutError):
                raise ConnectionTrouble(
                    "timeout",
                    f"{self.where} did not take a connection within {self._timeout_s:g} s: the "
                    f"host is down, or a firewall drops packets",
                ) from error
            if isinstance(error, ConnectionRefusedError):
                raise ConnectionTrouble(
                    "refused", f"{self.where} refused the connection: nothing listens there"
                ) from error
            if isinstance(error, OSError):
                raise ConnectionTrouble(
                    "network", f"{self.where} cannot be connected: {error.strerror or error}"
                ) from error
            raise
        return connecting

    def exchange(self, request: bytes, number: int, what: str) -> bytes:
        """Send a request; return its answer without the size prefix.

        Args:
            request: a whole frame.
            number: its correlation id.
            what: its name, for errors.
        """
        deadline_s = time.monotonic() + self._timeout_s
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(request)
            prefix = self._receive(4, deadline_s)
            (size,) = struct.unpack(">i", prefix)
            if not 4 <= size <= _LARGEST_ANSWER_BYTES:
                raise self._strange(prefix)
            payload = self._receive(size, deadline_s)
        except TimeoutError as error:
            raise ConnectionTrouble(
                "timeout",
                f"{self.where} took the connection and did not answer {what} within "
                f"{self._timeout_s:g} s: it hangs, or is no Kafka broker",
            ) from error
        except OSError as error:
            how = f" ({error.strerror})" if error.strerror else ""
            # A listener with SASL answers ApiVersions, and nothing else without authentication.
            why = (
                "its listener wants SASL: set security.protocol to what it has"
                if self._has_answered
                else "it is no Kafka broker, or its listener is not PLAINTEXT"
            )
            raise ConnectionTrouble(
                "closed",
                f"{self.where} closed the connection{how} instead of answering {what}: {why}",
            ) from error
        if payload[:4] != struct.pack(">i", number):
            raise _not_kafka(self.where, "its answer belongs to no request")
        self._has_answered = True
        return payload

    def _receive(self, size: int, deadline_s: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            chunk = self._socket.recv(min(size - len(received), 1 << 20))
            if not chunk:
                raise ConnectionResetError
            received += chunk
        return bytes(received)

    def _strange(self, prefix: bytes) -> ConnectionTrouble:
        """What the first bytes mean if they are no size."""
        if prefix.startswith(_TLS_ALERT):
            return _not_kafka(
                self.where,
                "it answers with a TLS alert: this listener speaks TLS: set "
                "security.protocol to what it has",
            )
        if prefix == b"HTTP":
            return _not_kafka(self.where, "it answers in HTTP")
        if all(byte in _PRINTABLE for byte in prefix):
            return _not_kafka(
                self.where, f"its answer starts with the text {prefix.decode('ascii')!r}"
            )
        return _not_kafka(self.where, f"its answer starts with the bytes {prefix.hex(' ')}")


def _not_kafka(where: str, why: str) -> ConnectionTrouble:
    return ConnectionTrouble("not kafka", f"{where} is not Kafka in the clear: {why}")
