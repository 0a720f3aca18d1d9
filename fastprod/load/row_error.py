"""RowError: a row that was not written, and where it is in the input."""

from __future__ import annotations

from collections.abc import Sequence

from fastprod.errors import KafkaError
from fastprod.records import FailedRow


def is_fault(error: KafkaError) -> bool:
    """Whether the row itself is at fault, not another one in its batch."""
    return type(error) is not KafkaError


def row_at_fault(failed: Sequence[FailedRow]) -> FailedRow:
    """The first error with `is_fault`, else the first error."""
    return next((each for each in failed if is_fault(each.error)), failed[0])


class RowError(KafkaError):
    """A row of a Spark task could not be written; the task fails and Spark tries it again.

    Attributes:
        row: 0-based index of the row among those of its task.
        spark_partition: the task's partition.
        attempt: 0 for the task's first.
        topic: the record's topic; None: the row has none.
        partition: the topic's partition, if one was chosen.
        key_size_bytes: -1 for a null key; None: unknown.
        value_size_bytes: likewise.
        failed_count: rows that failed, of those whose outcome is known.
        acknowledged_count: rows that are in Kafka: a further attempt writes them again.
    """

    row: int
    spark_partition: int
    attempt: int
    key_size_bytes: int | None
    value_size_bytes: int | None
    failed_count: int
    acknowledged_count: int

    def __init__(
        self,
        cause: str,
        *,
        row: int,
        spark_partition: int,
        attempt: int,
        topic: str | None = None,
        partition: int | None = None,
        key_size_bytes: int | None = None,
        value_size_bytes: int | None = None,
        failed_count: int = 1,
        acknowledged_count: int = 0,
    ) -> None:
        where = "" if topic is None else f", for topic {topic!r}"
        where += "" if partition is None else f", partition {partition}"
        sizes = ", ".join(
            f"{name} {'null' if size < 0 else f'of {size:,} bytes'}"
            for name, size in (("key", key_size_bytes), ("value", value_size_bytes))
            if size is not None
        )
        super().__init__(
            f"{cause} [row {row:,} (from 0) of Spark partition {spark_partition}, attempt "
            f"{attempt}{where}{f': {sizes}' if sizes else ''}; rows of this attempt: "
            f"{failed_count:,} known to have failed, {acknowledged_count:,} acknowledged, which a "
            f"further attempt writes again]",
            row=row,
            spark_partition=spark_partition,
            attempt=attempt,
            topic=topic,
            partition=partition,
            key_size_bytes=key_size_bytes,
            value_size_bytes=value_size_bytes,
            failed_count=failed_count,
            acknowledged_count=acknowledged_count,
        )
