"""One decoded request, and the ways to answer it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

from fastprod.broker.cluster.topics import Topics
from fastprod.broker.network.request import Request, SizedBuffer
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.authorizer import Authorizer
from fastprod.broker.threads.overflow_worker import OverflowWorker

UNAUTHORIZED = "Authorization failed."
"""What a client is told that may not do something, where there is room for a text."""

# How many partitions the network's thread may make or delete: each takes up to a millisecond.
_QUICK_PARTITIONS = 16

M = TypeVar("M")


class Answerer(Protocol):
    """What a call needs of `KafkaApis`."""

    @property
    def authorizer(self) -> Authorizer:
        """Knows who may do what."""

    def send(self, request: Request, parts: Sequence[SizedBuffer] | None, throttle_ms: int) -> None:
        """Send an answer, unless a fault changes it."""

    def encode(self, request: Request, response: Any) -> Sequence[SizedBuffer]:
        """Write header and body of an answer."""

    def failed(self, request: Request, error: Exception) -> None:
        """Something raised `error`: answer with the request type's own error, or close."""


class Call(Generic[M]):
    """A request as its handler sees it. Answer it once, on any thread.

    Attributes:
        request: as it was received.
        message: decoded; of the class that its API's table names.
        version: of the request and of its answer.
        node_id: node that was asked.
        listener_name: listener that the client came by.
    """

    __slots__ = ("_answerer", "listener_name", "message", "node_id", "request", "version")

    def __init__(self, answerer: Answerer, request: Request, message: M) -> None:
        self._answerer = answerer
        self.request = request
        self.message = message
        self.version = request.header.version
        self.node_id = request.node_id
        self.listener_name = request.connection.listener_name

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do something with a resource."""
        connection = self.request.connection
        return self._answerer.authorizer.allows(connection, operation, resource_type, name)

    def allows_topic(self, operation: Operation, name: str | None) -> bool:
        """Whether the client may do something with a topic; one without a name is nobody's."""
        authorizer = self._answerer.authorizer
        # Nearly always: no rules at all.
        return authorizer.is_open or authorizer.allows(
            self.request.connection, operation, ResourceType.TOPIC, name or ""
        )

    def allows_cluster(self, operation: Operation) -> bool:
        """Whether the client may do something with the cluster."""
        return self._answerer.authorizer.allows_cluster(self.request.connection, operation)

    def allows_any_topic(self, operation: Operation) -> bool:
        """Whether the client may do something with one topic at least."""
        return self._answerer.authorizer.allows_any(
            self.request.connection, operation, ResourceType.TOPIC
        )

    def operations(
        self, among: Collection[Operation], resource_type: ResourceType, name: str
    ) -> int:
        """What the client may do with a resource, as bits of Kafka's operations."""
        connection = self.request.connection
        return self._answerer.authorizer.operations(connection, among, resource_type, name)

    def answer(self, response: Any, throttle_ms: int = 0) -> None:
        """Answer with a response message of the API.

        Raises:
            SchemaError: it does not fit the version.
            IllegalStateError: it was answered before.
        """
        parts = self._answerer.encode(self.request, response)
        self._answerer.send(self.request, parts, throttle_ms)

    def answer_nothing(self) -> None:
        """Finish without an answer: the client wants none (acks=0)."""
        self._answerer.send(self.request, None, 0)

    def failed(self, error: Exception) -> None:
        """Answer with `error`, raised on a thread that has no handler of its own."""
        self._answerer.failed(self.request, error)

    def close(self) -> None:
        """End the connection in place of an answer."""
        self.request.close_connection()


class ApiHandler(Protocol):
    """Handles the requests of one API. Any thread."""

    def handle(self, call: Call[Any]) -> None:
        """Answer the call, or park it and let somebody answer it later."""

    def refuse(self, call: Call[Any], code: int, text: str | None) -> None:
        """Answer every topic and partition of the call, or the whole, with an error."""


def change_topics(
    topics: Topics,
    worker: OverflowWorker,
    call: Call[Any],
    partition_count: int,
    work: Callable[[], None],
) -> None:
    """Have `work` make or delete so many partitions and answer the call: now, if that is quick.

    Else, and while others make topics, it waits its turn on the overflow worker; the network's
    thread serves other requests meanwhile.
    """

    def guarded() -> None:
        try:
            work()
        except Exception as error:
            call.failed(error)

    if partition_count <= _QUICK_PARTITIONS and worker.is_idle and not topics.is_busy:
        work()
    elif not worker.put(guarded):
        call.close()
