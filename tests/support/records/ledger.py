"""Ledger: what was acknowledged, against what readers find. The first difference is raised."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from fastprod.records import RecordMetadata
from support.oracle import murmur2
from support.records.readers import ReadRecord
from support.records.workload import Workload, WorkRecord

UNKNOWN = -1
SHOWN_BYTES = 60


class Difference(AssertionError):
    """What a reader found is not what was sent."""


def shown(record: WorkRecord | ReadRecord) -> str:
    """A record in one line, long parts shortened."""

    def short(part: bytes | None) -> str:
        if part is None or len(part) <= SHOWN_BYTES:
            return repr(part)
        return f"{part[:SHOWN_BYTES]!r}... ({len(part):,} bytes)"

    headers = ", ".join(f"{name!r}: {short(value)}" for name, value in record.headers)
    return (
        f"key {short(record.key)}, value {short(record.value)}, headers ({headers}), "
        f"timestamp {record.timestamp_ms}"
    )


class Ledger:
    """Where each record of a workload was acknowledged, 12 bytes a record.

    Args:
        workload: what is sent.
        has_offsets: False with acks=0, where nobody says where a record went.

    Threads: `acknowledged` from any, each record once; `check` when all are acknowledged.
    """

    def __init__(self, workload: Workload, *, has_offsets: bool = True) -> None:
        self.workload = workload
        self._has_offsets = has_offsets
        self._partition = array("i", [UNKNOWN]) * workload.count
        self._offset = array("q", [UNKNOWN]) * workload.count
        self._partition_of_key: dict[tuple[bytes, int], int] = {}
        self._failed: set[int] = set()

    def acknowledged(self, index: int, metadata: RecordMetadata) -> None:
        """Note what the producer says of record `index`.

        Raises: Difference when it says it twice, or something impossible.
        """
        if self._partition[index] != UNKNOWN:
            raise Difference(
                f"record {index} is acknowledged twice: at partition {self._partition[index]}, "
                f"offset {self._offset[index]}, then as {metadata}"
            )
        sent = self.workload.record(index)
        if (metadata.offset < 0) == self._has_offsets or metadata.timestamp != sent.timestamp_ms:
            raise Difference(f"record {index}, {shown(sent)}, is acknowledged as {metadata}")
        self._partition[index] = metadata.partition
        self._offset[index] = metadata.offset

    def failed(self, index: int) -> None:
        """Note that record `index` failed: it may be there once, or not at all."""
        self._failed.add(index)

    def failed_count(self) -> int:
        """How many records failed."""
        return len(self._failed)

    def acknowledged_count(self) -> int:
        """How many records have their acknowledgement."""
        return self.workload.count - self._partition.count(UNKNOWN)

    def check(self, found: Iterable[ReadRecord], partition_count: int) -> None:
        """Compare a whole topic with the workload: each record once, in order, every byte.

        A record that failed is there at most once.

        A partition has the records of one lane in the order in which they were sent; so it has
        those of one key. Records with a key are in the partition that Java's client would choose.

        Args:
            found: each partition's records in the order of their offsets; consumed.
            partition_count: partitions that the topic had all the time; 0: it changed, and where
                keys must be is not checked.

        Raises: Difference naming the first one.
        """
        workload = self.workload
        found_flags = bytearray(workload.count)
        next_offset: dict[int, int] = {}
        last_of_lane: dict[tuple[int, int], int] = {}
        for record in found:
            index = self._identify(record, next_offset)
            if found_flags[index]:
                raise Difference(
                    f"record {index} is there twice: the second time at partition "
                    f"{record.partition}, offset {record.offset}; it was acknowledged at "
                    f"{self._place(index)}: {shown(record)}"
                )
            found_flags[index] = 1
            self._compare(index, record, partition_count)
            lane = (record.partition, workload.lane(index))
            before = last_of_lane.get(lane, -1)
            if before > index:
                raise Difference(
                    f"partition {record.partition}, offset {record.offset}: record {index} comes "
                    f"after record {before}, which was sent later by the same thread"
                )
            last_of_lane[lane] = index
        self._require_all(found_flags)

    def _identify(self, record: ReadRecord, next_offset: dict[int, int]) -> int:
        due = next_offset.get(record.partition, 0)
        if record.offset != due:
            raise Difference(
                f"partition {record.partition}: offset {due} should come next, not {record.offset}"
            )
        next_offset[record.partition] = due + 1
        index = self.workload.index_of(record.timestamp_ms)
        if index is None:
            raise Difference(
                f"partition {record.partition}, offset {record.offset}: no record was sent with "
                f"this timestamp: {shown(record)}"
            )
        return index

    def _compare(self, index: int, record: ReadRecord, partition_count: int) -> None:
        sent = self.workload.record(index)
        if (record.key, record.value, record.headers) != (sent.key, sent.value, sent.headers):
            raise Difference(
                f"record {index}, at partition {record.partition}, offset {record.offset}:\n"
                f"sent: {shown(sent)}\nread: {shown(record)}"
            )
        if index not in self._failed and (
            self._partition[index] != record.partition
            or (self._has_offsets and self._offset[index] != record.offset)
        ):
            raise Difference(
                f"record {index} was acknowledged at {self._place(index)}, and is at partition "
                f"{record.partition}, offset {record.offset}"
            )
        if sent.key is not None and partition_count:
            due = self._keyed(sent.key, partition_count)
            if record.partition != due:
                raise Difference(
                    f"record {index} with key {sent.key!r} is in partition {record.partition}, "
                    f"Kafka's partitioner says {due}"
                )

    def _keyed(self, key: bytes, partition_count: int) -> int:
        found = self._partition_of_key.get((key, partition_count))
        if found is None:
            found = (murmur2.unsigned(key) & 0x7FFFFFFF) % partition_count
            self._partition_of_key[key, partition_count] = found
        return found

    def _require_all(self, found_flags: bytearray) -> None:
        for index in self._failed:
            found_flags[index] = 1
        missing = found_flags.count(0)
        if missing:
            index = found_flags.index(0)
            raise Difference(
                f"{missing:,} of {self.workload.count:,} records are missing, the first is record "
                f"{index}, acknowledged at {self._place(index)}: "
                f"{shown(self.workload.record(index))}"
            )

    def _place(self, index: int) -> str:
        if self._partition[index] == UNKNOWN:
            return "no place"
        return f"partition {self._partition[index]}, offset {self._offset[index]}"
