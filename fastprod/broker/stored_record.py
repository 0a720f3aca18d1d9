"""StoredRecord: a record that a broker has stored, as tests see it."""

from __future__ import annotations

from typing import NamedTuple

from fastprod._core.records.record_reader import ReadRecord


class StoredRecord(NamedTuple):
    """One record in a partition.

    Attributes:
        partition: 0-based.
        offset: in the partition.
        timestamp: milliseconds since the epoch; the broker's with LogAppendTime.
        key: None if null.
        value: None if null.
        headers: (key, value or None), in order.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(cls, partition: int, record: ReadRecord) -> StoredRecord:
        """Return what was read, of a partition."""
        return cls(
            partition, record.offset, record.timestamp, record.key, record.value, record.headers
        )
