"""Workload: what one client is to do in one run, the same for every client."""

from __future__ import annotations

import dataclasses
import json
from typing import Self

VALUE_COUNT = 1000
"""Different values in a run; record counts are multiples of it."""

DRESS_KEY = b"user-0000042"
DRESS_HEADERS = (("trace", b"0123456789abcdef"), ("source", b"bench"), ("version", b"1"))
"""What a dressed record has."""

KEYS = tuple(b"user-%07d" % number for number in range(VALUE_COUNT))
"""Of records with a key each, gone through in turn as the values are."""

TRICKLE = "trickle"
TRICKLE_PAUSE_S = 0.2
"""Between two records of a workload of that way: five a second."""

SPREAD = "spread"
"""The way of records that go to topics of the run's own, with many partitions or many of them."""

IDLE = "idle"
"""The way of a producer that has nothing to do."""

COLD = "cold"
"""The way of a run that is a constructor and one record."""

PACED = "paced"
"""The way of records that are sent at a steady rate, each with a callback that takes its time."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """One run of one client.

    Args:
        way: "send" (one call a record, futures dropped), "spread" (the same over many partitions,
            topics or threads), "bulk" (many records a call), "latency"
            (one record at a time, each awaited), "trickle" (the same, five a second), "cold" (one
            record, timed from the constructor on), "idle" (some seconds without any, then one),
            "paced" (`per_s` records a second, each timed), "tasks" (awaited by many tasks at once),
            "transactions" (committed back to back) or "commits" (transactions of one record with
            pauses, each commit timed).
        record_count: records that are timed; a multiple of VALUE_COUNT, but in a trickle or at a
            pace; 1 when "cold" or "idle".
        values: "text-<bytes>" or "json-lines".
        linger_ms: None leaves it to the client's default; so with the next three.
        batch_bytes: size of a batch at most.
        idempotence: exactly-once writes.
        buffer_bytes: what may be queued at most; librdkafka's limit is a count, see its peer.
        codec: of the batches.
        callbacks: every record has a delivery callback.
        bulk_records: records a call when `way` is "bulk".
        transaction_records: records a transaction; 0: there are none.
        columns: what they are then: "lists", "arrow", or with a key each "lists-keys", "arrow-keys"
            or "numpy-keys".
        acks: "all" or "1".
        dressed: every record has DRESS_KEY and DRESS_HEADERS.
        extra: what every record has in place of a partition when `way` is "send": "keys" is one of
            KEYS, "headers" are DRESS_HEADERS, "nothing" is nothing. Empty: a partition.
        topics: to which records go in turn when `way` is "spread".
        partitions: of each of these topics.
        nodes: a topic has one partition on each of the server's first so many nodes instead.
        used_partitions: the first so many have all records but one each; 0: all of them do.
        by_key: there records go by random keys, not to one partition after the other.
        by_producer: there the producer chooses the partition of a record without a key.
        senders: threads that share the records there.
        flushes: each record is waited for by a flush of the producer.
        waiters: threads that wait for records of their own when `way` is "latency".
        pause_us: what each of them sleeps after each record.
        flood_per_s: records that another thread sends meanwhile, and does not wait for.
        per_s: records a second of each producer when `way` is "paced".
        producers: that take turns there.
        spins: a second thread of the client's process runs pure Python meanwhile.
        bootstrap_servers: filled in when the run starts; so the topic.
        topic: made for this run.
        ca_file: certificates that the client is to trust; it connects with TLS. Empty: it does not.
    """

    way: str
    record_count: int
    values: str = "text-100"
    linger_ms: int | None = None
    batch_bytes: int | None = None
    idempotence: bool | None = None
    buffer_bytes: int | None = None
    codec: str = "none"
    callbacks: bool = False
    bulk_records: int = 0
    transaction_records: int = 0
    columns: str = "lists"
    acks: str = "all"
    dressed: bool = False
    extra: str = ""
    topics: int = 1
    partitions: int = 1
    nodes: int = 0
    used_partitions: int = 0
    by_key: bool = False
    by_producer: bool = False
    senders: int = 1
    flushes: bool = False
    waiters: int = 1
    pause_us: int = 0
    flood_per_s: int = 0
    per_s: int = 0
    producers: int = 1
    spins: bool = False
    bootstrap_servers: str = ""
    topic: str = ""
    ca_file: str = ""

    def with_count(self, record_count: int) -> Self:
        """The same with another number of records."""
        return dataclasses.replace(self, record_count=record_count)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    @property
    def round_count(self) -> int:
        """How often the values are gone through.

        Raises:
            ValueError: `record_count` is no multiple of VALUE_COUNT.
        """
        rounds, rest = divmod(self.record_count, VALUE_COUNT)
        if rest:
            raise ValueError(f"{self.record_count} records: not a multiple of {VALUE_COUNT}")
        return rounds

    @property
    def topic_names(self) -> list[str]:
        """All topics that records go to."""
        if self.way != SPREAD:
            return [self.topic]
        return [f"{self.topic}-{number}" for number in range(self.topics)]

    def repeated(self, values: list[bytes]) -> list[bytes]:
        """The values of one transaction."""
        times, rest = divmod(self.transaction_records, len(values))
        return values * times + values[:rest]

    def settings_text(self) -> str:
        """The settings in one line, for the report."""
        parts = [
            f"linger {_or_default(self.linger_ms, ' ms')}",
            f"batch {_or_default(self.batch_bytes, ' B')}",
            f"acks={self.acks}",
            f"idempotence {_on_off(self.idempotence)}",
        ]
        if self.buffer_bytes is not None:
            parts.append(f"buffer {self.buffer_bytes:,} B")
        if self.codec != "none":
            parts.append(self.codec)
        if self.callbacks:
            parts.append("a callback each")
        if self.dressed:
            parts.append("a key and 3 headers")
        if self.extra:
            parts.append(f"with {self.extra}")
        if self.partitions > 1:
            parts.append(f"{self.partitions:,} partitions {'by key' if self.by_key else 'in turn'}")
        if self.nodes:
            parts.append(f"a partition on each of {self.nodes} nodes")
        if self.used_partitions:
            parts.append(f"all to {self.used_partitions:,} of them")
        if self.by_producer:
            parts.append("without a key")
        if self.topics > 1:
            parts.append(f"{self.topics:,} topics in turn")
        if self.senders > 1:
            parts.append(f"{self.senders} senders")
        if self.flushes:
            parts.append("by flush")
        if self.waiters > 1:
            parts.append(f"{self.waiters} threads")
        if self.pause_us:
            parts.append(f"{self.pause_us} us apart")
        if self.flood_per_s:
            parts.append(f"beside {self.flood_per_s:,}/s")
        if self.per_s:
            parts.append(f"{self.per_s:,}/s")
        if self.producers > 1:
            parts.append(f"by each of {self.producers} producers")
        if self.transaction_records:
            parts.append(f"{self.transaction_records:,} a transaction")
        if self.way == "bulk":
            parts.append(f"{self.bulk_records:,} a call as {self.columns}")
        return f"{self.record_count:,} x {self.values}; " + ", ".join(parts)


def _or_default(value: int | None, unit: str) -> str:
    return "default" if value is None else f"{value:,}{unit}"


def _on_off(flag: bool | None) -> str:
    return {None: "default", True: "on", False: "off"}[flag]
