"""BrokerConnection: blocking requests to one broker, one after the other.

A producer keeps trying, as a service must; a person at a terminal wants to know at once what is
wrong. So a command asks a broker by itself before it makes a producer, with the same tables of
messages.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from fastprod.client.addresses import Address, resolve
from fastprod.client.api_versions import (
    HIGHEST_VERSION,
    ApiVersions,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
)
from fastprod.client.metadata.metadata_answer import metadata_request, read_metadata
from fastprod.errors import UnsupportedVersionError, error_for_code
from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import CREATE_TOPICS, DELETE_TOPICS, METADATA
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages import create_topics, delete_topics
from fastprod.protocol.messages.metadata import MetadataResponse
from fastprod.version import VERSION

Q = TypeVar("Q")
A = TypeVar("A")

CLIENT_ID: Final = "fastprod-cli"
_LARGEST_ANSWER_BYTES: Final = 100 * 1024 * 1024
_TLS_ALERT: Final = b"\x15\x03"
_PRINTABLE: Final = range(0x20, 0x7F)


class TopicResult(Protocol):
    """The result of creating or deleting a topic."""

    error_code: int
    error_message: str | None


class ConnectionTrouble(Exception):
    """Why a broker could not be asked, in one sentence that names its address.

    Attributes:
        cause: "dns", "refused", "timeout", "network", "closed", "not kafka" or "answer".
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def resolve_in_time(host: str, port: int, timeout_s: float) -> list[Address]:
    """The addresses of a host, in the order in which the client would try them.

    Raises:
        ConnectionTrouble: the name is unknown, or the resolver does not answer in time.
    """
    found: list[list[Address] | OSError] = []

    def ask() -> None:
        try:
            found.append(resolve(host, port))
        except OSError as error:
            found.append(error)

    # getaddrinfo has no time limit; a thread that is left waiting in it does no harm.
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
        timeout_s: limit of connecting, and of each request, in seconds.

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
            answer = read_metadata(version, self._exchange(request, number, "Metadata"))
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
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=partition_count, replication_factor=-1
        )
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms)
        version = self._version(CREATE_TOPICS)
        answer = self._change_topics(create_topics.API, version, request)
        self._check_topic(name, answer.topics)

    def delete_topic(self, name: str) -> None:
        """Delete a topic.

        Raises:
            KafkaError: the broker refuses; `code` tells why.
        """
        request = delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=self._timeout_ms)
        # From version 6 on topics are named by id, too, which is of no use here.
        version = min(self._version(DELETE_TOPICS), 5)
        answer = self._change_topics(delete_topics.API, version, request)
        self._check_topic(name, answer.responses)

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_s * 1000)

    def _change_topics(self, api: Api[Q, A], version: int, request: Q) -> A:
        number = self._next_number()
        frame = api.request_frame(version, number, CLIENT_ID, request)
        return api.read_response(version, self._exchange(frame, number, "a change of topics"))[1]

    def _check_topic(self, name: str, results: Sequence[TopicResult]) -> None:
        """Raise the error of the one topic in the answer."""
        (result,) = results
        if result.error_code:
            raise error_for_code(result.error_code, message=result.error_message, topic=name)

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
            # A listener with SASL answers ApiVersions, and nothing else without authentication.
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
        """What the first bytes mean if they are no size."""
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
