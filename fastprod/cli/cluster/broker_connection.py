"""BrokerConnection: blocking requests to one broker, one after the other.

A producer keeps trying, as a service must; a person at a terminal wants to know at once what is
wrong. So a command asks a broker by itself before it makes a producer, with the same tables of
messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.cluster.plain_channel import PlainChannel
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.api_versions import (
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


class Channel(Protocol):
    """A way to one address of a broker, which ends with `close`; see `PlainChannel`.

    Attributes:
        where: the address, for messages.
    """

    @property
    def where(self) -> str: ...
    def exchange(self, request: bytes, number: int, what: str) -> bytes: ...
    def close(self) -> None: ...


class TopicResult(Protocol):
    """The result of creating or deleting a topic."""

    error_code: int
    error_message: str | None


class BrokerConnection:
    """A connection to one address of a broker, with its ApiVersions; use it in a `with`.

    Args:
        way: where to connect, in plain text; or a channel that is made already, and is closed with
            the connection.
        timeout_s: limit of connecting, and of each request, in seconds.

    Attributes:
        where: the address, for messages.
        versions: what the broker offers.

    Raises:
        ConnectionTrouble: from every method, and from making one.

    Blocks: up to `timeout_s` a call.  Threads: one at a time.
    """

    def __init__(self, way: Address | Channel, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._channel: Channel = PlainChannel(way, timeout_s) if isinstance(way, Address) else way
        self.where = self._channel.where
        try:
            self.versions = self._ask_versions()
        except BaseException:
            self._channel.close()
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
        self._channel.close()

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        """Brokers and topics; None asks for every topic. Creates none."""
        version = self._version(METADATA)
        number = self._next_number()
        request = metadata_request(version, number, CLIENT_ID, topics, False)
        try:
            answer = read_metadata(version, self._channel.exchange(request, number, "Metadata"))
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
        return api.read_response(
            version, self._channel.exchange(frame, number, "a change of topics")
        )[1]

    def _check_topic(self, name: str, results: Sequence[TopicResult]) -> None:
        """Raise the error of the one topic in the answer."""
        (result,) = results
        if result.error_code:
            raise error_for_code(result.error_code, message=result.error_message, topic=name)

    def _ask_versions(self) -> ApiVersions:
        version: int | None = HIGHEST_VERSION
        while version is not None:
            number = self._next_number()
            request = api_versions_request(version, number, CLIENT_ID, "fastprod", VERSION)
            payload = self._channel.exchange(request, number, "ApiVersions")
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

    def _version(self, api_key: int) -> int:
        try:
            return self.versions.pick(api_key)
        except UnsupportedVersionError as error:
            raise ConnectionTrouble("answer", f"{self.where}: {error}") from error

    def _not_kafka(self, why: str) -> ConnectionTrouble:
        return ConnectionTrouble("not kafka", f"{self.where} is no Kafka broker: {why}")

    def _refused(self, what: str, code: int) -> ConnectionTrouble:
        return ConnectionTrouble("answer", f"{self.where} refuses {what}: {error_for_code(code)}")
