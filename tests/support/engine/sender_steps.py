"""A sender taken step by step, on the test's own clock; no thread, no socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastprod._core.delivery.future import RecordFuture
from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.engine.engine import Engine
from fastprod._core.testing import codec_doors
from fastprod._core.testing.sender_harness import SenderDoor
from fastprod.client.engine_settings import engine_settings
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import PRODUCE
from fastprod.records import RecordMetadata
from support.oracle import kio_codec
from support.oracle import record_batch as oracle

TOPIC: Final = "t"
TIMEOUT_MS: Final = 5000
PRODUCER_ID: Final = 4000
START_MS: Final = 1_000_000
VERSION: Final = 12
FIELDS_FROM: Final = {"log_start_offset": 5, "record_errors": 8}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_AT: Final = 22
CODEC_MASK: Final = 7

Leader = tuple[int, int]
"""Slot, which is also the node's id, and leader epoch."""


class SentBatch(NamedTuple):
    """A batch as it is in a request's frame."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    sequence: int
    values: list[bytes | None]
    batch: oracle.Batch


class Steps:
    """One engine with one topic.

    Args:
        leaders: of the partitions 0..n-1.
        topic: its name.
        has_producer_id: False: it has not come yet.
        version: of Produce, at every node.
        is_known: the brokers have acknowledged a record in each partition, so that several batches
            of it may be under way; sequences then go on from 1.
        config: the producer's settings; idempotence is on and linger is 0 unless told.
    """

    def __init__(
        self,
        leaders: Sequence[Leader] = ((0, 0),),
        *,
        topic: str = TOPIC,
        has_producer_id: bool = True,
        version: int = VERSION,
        is_known: bool = False,
        **config: Any,
    ) -> None:
        settings = {"bootstrap_servers": "localhost:1", "linger_ms": 0, **config}
        settings.setdefault("buffer_memory", 1 << 20)
        self.config = ProducerConfig(settings)
        self.engine = Engine(**{**engine_settings(self.config), "seed": 1})
        self.door = SenderDoor(self.engine, START_MS)
        self.topic = topic
        self.version = version
        self.lead(leaders)
        for slot in sorted({slot for slot, _ in leaders if slot >= 0} | {0}):
            self.door.connect(slot, version)
        if self.config.enable_idempotence and has_producer_id:
            self.engine.set_producer_id(PRODUCER_ID, 0)
            self.door.obey()
        if is_known:
            for partition in range(len(leaders)):
                self.door.set_next_sequence(topic, partition, 1)

    def lead(self, leaders: Sequence[Leader], topic: str | None = None) -> None:
        """Metadata arrives: these are the leaders now."""
        self.engine.set_topic(
            self.topic if topic is None else topic,
            bytes(16),
            [(slot, epoch, slot) for slot, epoch in leaders],
        )
        self.door.obey()

    def pass_time(self, ms: float) -> None:
        self.door.now_ms += ms

    def send(
        self, value: bytes = b"v", partition: int = 0, *, key: bytes | None = None, at_ms: int = 1
    ) -> RecordFuture:
        """Append a record; the pool must have room."""
        future = self.door.append(self.topic, value, key, partition, at_ms)
        assert future is not None, "the pool is exhausted"
        return future

    def drain(self, slot: int = 0) -> int:
        """What the node is ready for, in one request; there must be something."""
        ready, _ = self.door.ready(slot)
        assert ready, "the node is not ready"
        handle = self.door.drain(slot)
        assert handle is not None, "there is nothing to drain"
        return handle

    def drain_anyhow(self, slot: int = 0) -> int:
        """As `drain`, whatever the linger says: somebody flushes."""
        self.door.set_flushing(1)
        handle = self.drain(slot)
        self.door.set_flushing(0)
        return handle

    def succeed_queue(self, partition: int = 0, slot: int = 0) -> None:
        """Send and acknowledge, one by one, all that a partition has."""
        while self.queue(partition):
            self.succeed(self.drain_anyhow(slot))

    def nothing_goes(self, slot: int = 0) -> bool:
        """Whether the node gets nothing now."""
        is_ready, _ = self.door.ready(slot)
        return not is_ready and self.door.drain(slot) is None

    def sent(self, handle: int) -> list[SentBatch]:
        """What is in a request's frame, read by slow and obvious code; CRCs are checked."""
        _, message = kio_codec.decode_request(self.door.frame(handle)[4:])
        return [
            _sent_batch(getattr(topic, "name", self.topic), each.index, bytes(each.records))
            for topic in message.topic_data
            for each in topic.partition_data
        ]

    def raw(self, handle: int) -> list[bytes]:
        """The record batches of a request, as they are in its frame."""
        _, message = kio_codec.decode_request(self.door.frame(handle)[4:])
        return [
            bytes(each.records) for topic in message.topic_data for each in topic.partition_data
        ]

    def batch_values(self, handle: int) -> list[list[bytes | None]]:
        """The values of each batch of a request."""
        return [each.values for each in self.sent(handle)]

    def sequences(self, handle: int) -> list[tuple[int, int]]:
        """Epoch and base sequence of each batch of a request."""
        return [(each.epoch, each.sequence) for each in self.sent(handle)]

    def values(self, handle: int) -> list[bytes | None]:
        """The values of all records of a request."""
        return [value for each in self.sent(handle) for value in each.values]

    def answer(
        self,
        handle: int,
        answers: Mapping[int, Mapping[str, Any]] | None = None,
        *,
        throttle_ms: int = 0,
        endpoints: Sequence[Mapping[str, Any]] = (),
        **fields: Any,
    ) -> None:
        """Answer a request.

        Args:
            handle: the request's.
            answers: fields by partition, by kio's names.
            throttle_ms: of the response.
            endpoints: of the response.
            fields: for every partition that `answers` does not name.
        """
        answers = answers or {}
        told = [
            partition_answer(each.partition, **answers.get(each.partition, fields))
            for each in self.sent(handle)
        ]
        payload = produce_response(self.version, {self.topic: told}, throttle_ms, endpoints)
        assert self.door.answer(handle, payload)

    def succeed(self, handle: int, base_offset: int = 0) -> None:
        self.answer(handle, base_offset=base_offset)

    def refuse(self, handle: int, code: int, **fields: Any) -> None:
        """Answer every batch with an error."""
        self.answer(handle, error_code=code, **fields)

    def state(self, partition: int = 0) -> dict[str, Any]:
        return self.door.partition_state(self.topic, partition)

    def queue(self, partition: int = 0) -> list[dict[str, Any]]:
        return self.door.queue(self.topic, partition)

    def in_flight(self, partition: int = 0) -> list[dict[str, Any]]:
        return self.door.in_flight(self.topic, partition)

    def counters(self) -> dict[str, int]:
        return self.engine.counters()

    def memory_is_back(self) -> bool:
        """Whether the pool is whole and nothing is left outside it."""
        found = self.counters()
        is_whole = found["buffer_available_bytes"] == found["buffer_total_bytes"]
        return is_whole and found["heap_bytes"] == 0

    def events(self, kind: int) -> list[ControlEvent]:
        """Events of one kind for the control thread since they were last asked for."""
        return [event for event in self.door.events() if event.kind == kind]


def partition_answer(index: int, **fields: Any) -> dict[str, Any]:
    """One partition of a Produce response, with Kafka's defaults."""
    return {
        "index": index,
        "error_code": 0,
        "base_offset": -1,
        "log_append_time": -1,
        "log_start_offset": 0,
        "record_errors": [],
    } | fields


def produce_response(
    version: int,
    topics: Mapping[str, Sequence[Mapping[str, Any]]],
    throttle_ms: int = 0,
    endpoints: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """A Produce response from behind its correlation id on."""
    late = [name for name, first_version in FIELDS_FROM.items() if version < first_version]
    message: dict[str, Any] = {
        "responses": [
            {
                "name": name,
                "partition_responses": [
                    {field: each[field] for field in each if field not in late} for each in told
                ],
            }
            for name, told in topics.items()
        ],
        "throttle_time": throttle_ms,
    }
    if endpoints:
        message["node_endpoints"] = list(endpoints)
    return kio_codec.encode_response(PRODUCE, version, 0, message)[8:]


def outcome(future: RecordFuture) -> RecordMetadata | KafkaError | None:
    """Where a record is, or why not; None: it is not done."""
    if not future.done():
        return None
    error = future.exception(0)
    return future.result(0) if error is None else error


def offset(future: RecordFuture) -> int:
    """The offset of a record that was delivered."""
    return future.result(0).offset


def _sent_batch(topic: str, partition: int, raw: bytes) -> SentBatch:
    codec = CODECS[raw[CODEC_AT] & CODEC_MASK]
    batch = oracle.decode_batch(
        raw, decompress=lambda part: codec_doors.decompress_for_test(codec, part)
    )
    return SentBatch(
        topic,
        partition,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        [record.value for record in batch.records],
        batch,
    )


def known(partitions: int = 1, **config: Any) -> Steps:
    """Brokers that have acknowledged sequence 0 of each partition."""
    settings = {"delivery_timeout_ms": TIMEOUT_MS, "request_timeout_ms": 100, **config}
    return Steps([(0, 0)] * partitions, is_known=True, **settings)


def under_way(sender: Steps, count: int, partition: int = 0) -> list[tuple[Any, int]]:
    """So many batches of one record, each in a request of its own: (future, request)."""
    found = []
    for number in range(count):
        future = sender.send(b"%d" % number, partition)
        found.append((future, sender.drain()))
    return found


def retried(sender: Steps) -> int:
    """The next request, after any backoff."""
    sender.pass_time(1000)
    return sender.drain()
