"""A small world for tests of the client's metadata: a clock of its own, and answers to order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.metadata.metadata import Metadata, MetadataChanges, MetadataRequestAndVersion
from fastprod.client.metadata.metadata_answer import NO_TOPIC_ID, read_metadata
from fastprod.protocol.messages.metadata import (
    API,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fastprod.records import Node

BACKOFF_MS = 100
BACKOFF_MAX_MS = 1000
MAX_AGE_MS = 300_000
MAX_IDLE_MS = 50_000
B1 = Node(1, "b1", 9092)
B2 = Node(2, "b2", 9092)


def topic_metadata(
    name: str,
    epochs: Iterable[int] = (5,),
    *,
    error: int = 0,
    partition_error: int = 0,
    topic_id: bytes = NO_TOPIC_ID,
    leader: int = 1,
    internal: bool = False,
) -> MetadataResponseTopic:
    """One topic with a partition for each epoch; none with an error."""
    partitions = [
        MetadataResponsePartition(partition_error, number, leader, epoch, (1, 2), (1,), ())
        for number, epoch in enumerate(epochs)
    ]
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=internal,
        partitions=[] if error else partitions,
    )


def answer(
    *topics: MetadataResponseTopic,
    nodes: Iterable[Node] = (B1, B2),
    version: int = 13,
    error: int = 0,
) -> MetadataResponse:
    """A metadata response, as it is read from an answer of this version."""
    message = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_id="cluster",
        controller_id=1,
        topics=list(topics),
        error_code=error,
    )
    head = API.response_head(version, 0)
    return read_metadata(version, b"".join(API.response.encode(version, message, head)))


class World:
    """Metadata whose waits take no time: each one calls ``on_wait``, then moves the clock.

    Attributes:
        now_ms: the clock.
        wakes: how often the control thread was woken.
        slices_ms: the waits, in ms.
        on_wait: what happens during a wait; by default nothing.
        used_ms: what ``last_used_ms`` says, by topic.
    """

    def __init__(self, now_ms: int = 1_000_000, backoff: ExponentialBackoff | None = None) -> None:
        self.now_ms = now_ms
        self.wakes = 0
        self.slices_ms: list[float] = []
        self.on_wait: Callable[[], object] = lambda: None
        self.used_ms: Mapping[str, int] = {}
        self.metadata = Metadata(
            refresh_backoff=backoff or ExponentialBackoff(BACKOFF_MS, BACKOFF_MAX_MS, jitter=0),
            max_age_ms=MAX_AGE_MS,
            max_idle_ms=MAX_IDLE_MS,
            clock_ms=lambda: self.now_ms,
            wake=self._wake,
            last_used_ms=lambda topic: self.used_ms.get(topic),
            wait=self._wait,
        )

    def _wake(self) -> None:
        self.wakes += 1

    def _wait(self, condition: threading.Condition, seconds: float) -> None:
        self.slices_ms.append(seconds * 1000)
        before_ms = self.now_ms
        self.on_wait()
        if self.now_ms == before_ms:
            self.now_ms += round(seconds * 1000)

    def time_to_next_ms(self) -> int:
        """``time_to_next_update_ms`` now."""
        return self.metadata.time_to_next_update_ms(self.now_ms)

    @property
    def is_update_requested(self) -> bool:
        """Something asked for an update."""
        return self.metadata._schedule.is_requested

    def last_seen_epoch(self, topic: str, partition: int) -> int | None:
        """The newest leader epoch seen of a partition; None if there is none to rely upon."""
        return self.metadata._epochs.last_seen(topic, partition)

    def ask(self) -> MetadataRequestAndVersion:
        """``new_request`` now."""
        return self.metadata.new_request(self.now_ms)

    def give(self, *topics: MetadataResponseTopic, version: int = 13) -> MetadataChanges:
        """Ask now and be answered at once."""
        return self.metadata.update(self.ask(), answer(*topics, version=version), self.now_ms)
