"""Members of consumer groups, of other people's clients, and a ledger of what they have done."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata

TIMEOUT_S = 60.0
SESSION_MS = 6000
# Few, so that members take turns.
AT_ONCE = 40

Batch = dict[int, list[tuple[int, bytes]]]
"""Partition -> (offset, value) of each record."""


class Member(Protocol):
    """One consumer in a group; one thread."""

    def poll(self) -> Batch:
        """What has come within a moment."""

    def commit(self, positions: Mapping[int, int]) -> bool:
        """Commit positions by partition; False: the group refuses, these are no longer mine."""

    def close(self) -> None:
        """Leave."""


class ConfluentMember:
    """confluent-kafka, in a group whose members assign."""

    protocol: ClassVar[dict[str, Any]] = {
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": "roundrobin",
    }

    def __init__(self, servers: str, topic: str, group: str, **settings: Any) -> None:
        self._topic = topic
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                **self.protocol,
                **settings,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> Batch:
        found: Batch = defaultdict(list)
        for each in self._consumer.consume(AT_ONCE, 0.2):
            if each.error() is None:
                partition, offset, value = each.partition(), each.offset(), each.value()
                assert partition is not None
                assert offset is not None
                assert isinstance(value, bytes)
                found[partition].append((offset, value))
        return found

    def commit(self, positions: Mapping[int, int]) -> bool:
        offsets = [
            confluent_kafka.TopicPartition(self._topic, index, position)
            for index, position in positions.items()
        ]
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException:
            return False
        assert done is not None
        return all(each.error is None for each in done)

    def close(self) -> None:
        self._consumer.close()


class AssignedConfluentMember(ConfluentMember):
    """confluent-kafka, in a group that the broker assigns (KIP-848)."""

    protocol: ClassVar[dict[str, Any]] = {"group.protocol": "consumer"}


class KafkaPythonMember:
    """kafka-python."""

    def __init__(self, servers: str, topic: str, group: str, **settings: Any) -> None:
        self._topic = topic
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=servers.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=50,
            max_poll_records=AT_ONCE,
            **settings,
        )

    def poll(self) -> Batch:
        polled = self._consumer.poll(timeout_ms=200)
        return {
            place.partition: [(each.offset, each.value) for each in records]
            for place, records in polled.items()
        }

    def commit(self, positions: Mapping[int, int]) -> bool:
        offsets = {
            kafka.TopicPartition(self._topic, index): OffsetAndMetadata(position, "", -1)
            for index, position in positions.items()
        }
        try:
            self._consumer.commit(offsets)
        except kafka.errors.KafkaError:
            return False
        return True

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AiokafkaMember:
    """aiokafka, with an event loop of its own that runs while it is called."""

    def __init__(self, servers: str, topic: str, group: str, **settings: Any) -> None:
        self._topic = topic
        self._loop = asyncio.new_event_loop()
        self._consumer = self._loop.run_until_complete(self._start(servers, group, settings))

    async def _start(self, servers: str, group: str, settings: dict[str, Any]) -> Any:
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=50,
            **settings,
        )
        await consumer.start()
        return consumer

    def poll(self) -> Batch:
        polled = self._loop.run_until_complete(
            self._consumer.getmany(timeout_ms=200, max_records=AT_ONCE)
        )
        return {
            place.partition: [(each.offset, each.value) for each in records]
            for place, records in polled.items()
        }

    def commit(self, positions: Mapping[int, int]) -> bool:
        offsets = {
            AioPartition(self._topic, index): position for index, position in positions.items()
        }
        try:
            self._loop.run_until_complete(self._consumer.commit(offsets))
        except AioError:
            return False
        return True

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


MEMBERS: dict[str, Callable[..., Member]] = {
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}


class Ledger:
    """What a group has read and committed of a topic, record by record. Any thread.

    Args:
        ends: one past the last offset of each partition.
    """

    def __init__(self, ends: Mapping[int, int]) -> None:
        self._ends = dict(ends)
        self._lock = threading.Lock()
        self.positions = dict.fromkeys(ends, 0)
        self.values: list[bytes] = []
        self.faults: list[str] = []
        self.refused_count = 0
        self._planned: tuple[int, Callable[[], None]] | None = None

    def plan(self, count: int, action: Callable[[], None]) -> None:
        """Have the member that commits the `count`-th record call `action` once, with records left
        to read however slow anybody else is."""
        self._planned = count, action

    @property
    def is_complete(self) -> bool:
        return self.positions == self._ends or bool(self.faults)

    def read(self, batch: Batch) -> None:
        """Somebody has read this: nothing of it may have been committed before."""
        with self._lock:
            for index, records in batch.items():
                first = records[0][0]
                if first < self.positions[index]:
                    self.faults.append(
                        f"{index}: offset {first} was read after {self.positions[index]} was "
                        f"committed"
                    )

    def committed(self, batch: Batch) -> None:
        """The group has taken this: it goes on where the last one ended."""
        with self._lock:
            for index, records in batch.items():
                first, last = records[0][0], records[-1][0]
                if first != self.positions[index]:
                    self.faults.append(
                        f"{index}: {first}..{last} was committed behind {self.positions[index]}"
                    )
                self.positions[index] = last + 1
                self.values += [value for _, value in records]
            planned = self._planned
            if planned is None or len(self.values) < planned[0]:
                return
            self._planned = None
        planned[1]()

    def refused(self) -> None:
        with self._lock:
            self.refused_count += 1


def work(member: Member, ledger: Ledger, most: int, stopped: threading.Event) -> int:
    """Read and commit until `most` records are done, or all are; then leave; returns how many."""
    count = 0
    try:
        while count < most and not ledger.is_complete and not stopped.is_set():
            batch = {index: records for index, records in member.poll().items() if records}
            if not batch:
                continue
            ledger.read(batch)
            if member.commit({index: records[-1][0] + 1 for index, records in batch.items()}):
                ledger.committed(batch)
                count += sum(map(len, batch.values()))
            else:
                ledger.refused()
    finally:
        member.close()
    return count


def churn(
    make: Callable[[int], Member], ledger: Ledger, members: int = 3, turn: int = 900
) -> list[int]:
    """Keep so many members at work; each leaves after a turn, and another one comes.

    Returns how many records each has done.

    Raises:
        TimeoutError: it is not done in time.
    """
    stopped, counts, errors = threading.Event(), [0], []
    counts.clear()

    def run(number: int) -> None:
        try:
            while not ledger.is_complete and not stopped.is_set():
                counts.append(work(make(number), ledger, turn + 37 * number, stopped))
        except BaseException as error:
            errors.append(error)
            stopped.set()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(members)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    is_late = any(thread.is_alive() for thread in threads)
    stopped.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    if errors:
        raise errors[0]
    if is_late:
        raise TimeoutError(f"committed up to {ledger.positions} in {TIMEOUT_S} s")
    return counts
