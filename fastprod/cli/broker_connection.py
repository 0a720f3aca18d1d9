"""BrokerConnection: one blocking exchange after the other with one broker.

The producer keeps trying, as a service must; a person at a terminal wants to know now what is
wrong. So the command line asks a broker by itself before it makes a producer, with the same
codecs.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from fastprod.api_versions import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    HIGHEST_VERSION,
    METADATA,
    ApiVersions,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
)
from fastprod.errors import UnsupportedVersionError, error_for_code
from fastprod.frames import SchemaError
from fastprod.messages import MetadataResponse, metadata_request, parse_metadata_response
from fastprod.net.addresses import Address, resolve
from fastprod.protocol import decode_response, encode_request
from fastprod.version import VERSION

CLIENT_ID: Final = "fastprod-cli"
_LARGEST_ANSWER_BYTES: Final = 100 * 1024 * 1024
_TLS_ALERT: Final = b"\x15\x03"
_PRINTABLE: Final = range(0x20, 0x7F)


class ConnectionTrouble(Exception):
    """Why a broker could not be asked, in one sentence that names its address.

    Attributes:
        cause: "dns", "refused", "timeout", "network", "closed", "not kafka" or "answer".
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def resolve_in_time(host: str, port: int, timeout_s: float) -> list[Address]:
    """The addresses of a host that the client would try, in its order.

    Raises:
        ConnectionTrouble: the name is unknown, or the resolver does not answer in time.
    """
    found: list[list[Address] | OSError] = []

    def ask() -> None:
        try:
            found.append(resolve(host, port))
        except OSError as error:
            found.append(error)

    # getaddrinfo takes no timeout; a thread that nobody waits for any more does no harm.
    thread = threading.Thread(target=ask, name="fastprod-resolver", daemon=True)
    thread.start()
    thread.join(timeout_s)
    answer = found[0] if found else None
    if answer is None:
        raise ConnectionTrouble(
            "dns", f"DNS gave no answer about the host {host!r} within {timeout_s:g} s"
        )
    if isinstance(answer, OSError):
        raise ConnectionTrouble(
            "dns", f"DNS does not know the host {host!r} ({answer.strerror or answer})"
        ) from answer
    return answer


class BrokerConnection:
    """A connection to one address of a broker, with its ApiVersions; use it in a `with`.

    Args:
        address: where to connect.
        timeout_s: bound of connecting, and of each exchange, in seconds.

    Attributes:
        where: the address, for messages.
        versions: what the broker offers.

    Raises:
        ConnectionTrouble: from every method, and from making one.

    Blocks: up to `timeout_s` a call.  Threads: one at a time.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.where = str(address)
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._has_answered = False
        self._socket = self._connected(address)
        try:
            self.versions = self._ask_versions()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calling it again does nothing."""
        self._socket.close()

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        """Brokers and topics; None asks for every topic. Creates none."""
        version = self._version(METADATA)
        number = self._next_number()
        request = metadata_request(version, number, CLIENT_ID, topics, False)
        try:
            answer = parse_metadata_response(version, self._exchange(request, number, "Metadata"))
        except SchemaError as error:
            raise self._not_kafka(f"its Metadata answer does not parse: {error}") from error
        if answer.error_code:
            raise self._refused("Metadata", answer.error_code)
        return answer

    def create_topic(self, name: str, partition_count: int) -> None:
        """Create a topic with the cluster's default replication.

        Raises:
            KafkaError: the broker refuses; `code` tells why.
        """
        version = self._version(CREATE_TOPICS)
        topic = {
            "name": name,
            "num_partitions": partition_count,
            "replication_factor": -1,
            "assignments": [],
            "configs": [],
        }
        self._change_topic(CREATE_TOPICS, version, {"topics": [topic], "validate_only": False})

    def delete_topic(self, name: str) -> None:
        """Delete a topic.

        Raises:
            KafkaError: the broker refuses; `code` tells why.
        """
        # From version 6 on topics are named in another way, for no gain here.
        version = min(self._version(DELETE_TOPICS), 5)
        self._change_topic(DELETE_TOPICS, version, {"topic_names": [name]})

    def _change_topic(self, api_key: int, version: int, body: dict[str, Any]) -> None:
        number = self._next_number()
        timeout = {"timeout": int(self._timeout_s * 1000)}
        request = encode_request(api_key, version, number, CLIENT_ID, body | timeout)
        _, answer = decode_response(
            api_key, version, self._exchange(request, number, "a change of topics")
        )
        result = (answer.topics if api_key == CREATE_TOPICS else answer.responses)[0]
        if result.error_code:
            message = getattr(result, "error_message", None)
            raise error_for_code(result.error_code, message=message, topic=result.name)

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

    def _ask_versions(self) -> ApiVersions:
        version: int | None = HIGHEST_VERSION
        while version is not None:
            number = self._next_number()
            request = api_versions_request(version, number, CLIENT_ID, "fastprod", VERSION)
            payload = self._exchange(request, number, "ApiVersions")
            try:
                _, answer = parse_api_versions_response(version, payload)
            except SchemaError as error:
                raise self._not_kafka(f"its first answer does not parse: {error}") from error
            if not answer.error_code:
                return answer
            code, version = answer.error_code, retry_version(version, answer)
        raise self._refused("ApiVersions", code)

    def _next_number(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def _exchange(self, request: bytes, number: int, what: str) -> bytes:
        """Send a request; return its answer without the size prefix."""
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
            # A listener with SASL answers ApiVersions to everybody, and nothing else.
            why = (
                "its listener wants SASL, which this version does not have"
                if self._has_answered
                else "it is no Kafka broker, or its listener is not PLAINTEXT"
            )
            raise ConnectionTrouble(
                "closed",
                f"{self.where} closed the connection{how} instead of answering {what}: {why}",
            ) from error
        if payload[:4] != struct.pack(">i", number):
            raise self._not_kafka("its answer belongs to no request")
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
        """What the first bytes say if they are no size."""
        if prefix.startswith(_TLS_ALERT):
            return self._not_kafka("it answers with a TLS alert: this listener speaks TLS")
        if prefix == b"HTTP":
            return self._not_kafka("it answers in HTTP")
        if all(byte in _PRINTABLE for byte in prefix):
            return self._not_kafka(f"its answer starts with the text {prefix.decode('ascii')!r}")
        return self._not_kafka(f"its answer starts with the bytes {prefix.hex(' ')}")

    def _version(self, api_key: int) -> int:
        try:
            return self.versions.pick(api_key)
        except UnsupportedVersionError as error:
            raise ConnectionTrouble("answer", f"{self.where}: {error}") from error

    def _not_kafka(self, why: str) -> ConnectionTrouble:
        return ConnectionTrouble("not kafka", f"{self.where} is not Kafka in the clear: {why}")

    def _refused(self, what: str, code: int) -> ConnectionTrouble:
        return ConnectionTrouble("answer", f"{self.where} refuses {what}: {error_for_code(code)}")
