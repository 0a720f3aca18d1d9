"""A door to the columns that `append_columns` takes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

_RowForTest = tuple[str, bytes | None, bytes | None, bytes | int | None, int, int]

def rows_for_test(
    columns: Any = None,
    *,
    topic: Any = None,
    values: Any = None,
    keys: Any = None,
    headers: Any = None,
    header_columns: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    partitions: Any = None,
    timestamps_ms: Any = None,
    partition_count: int = 3,
    known: Collection[str] | None = None,
    chunk_rows: int = 7,
    largest: int = 1000000,
    ignores_keys: bool = False,
) -> tuple[list[_RowForTest], list[int]]:
    """Read columns as `KafkaProducer.append_columns` does, at time 0.

    Args:
        partition_count: of every topic.
        known: topics whose metadata is there; None: all.
        chunk_rows: rows that are read at once.
        largest: most bytes of a row's headers.
        ignores_keys: as partitioner_ignore_keys.

    Returns:
        (topic, value, key, headers as encoded or their size if they are too large, partition,
        timestamp_ms) of each row, where partition -1 is the partitioner's to choose, -2 an unknown
        topic and -3 an unknown partition; and the largest partition asked for of each topic.
    """
