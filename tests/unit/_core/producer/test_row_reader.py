"""Rows out of columns: chunks, partitions, topics, and what is left to the partitioner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastprod._core.testing.column_doors import rows_for_test
from support.oracle.murmur2 import unsigned as murmur2
from support.records.arrow_capsules import Exporter, Part, offsets32, offsets64

KEYS = [b"key-%d" % i for i in range(40)]


def test_chunks_of_columns_need_not_lie_side_by_side() -> None:
    values = pa.chunked_array([[b"%d" % i] * 1 for i in range(20)] + [[]])
    keys = pa.chunked_array([KEYS[:7], [], KEYS[7:8], KEYS[8:20]])
    partitions = pa.chunked_array([[2] * 19, [1]])
    rows, _ = rows_for_test(topic="t", values=values, keys=keys, partitions=partitions)
    assert [row[1:3] for row in rows] == [(b"%d" % i, KEYS[i]) for i in range(20)]
    assert [row[4] for row in rows] == [2] * 19 + [1]


@pytest.mark.parametrize("chunk_rows", [1, 7, 64])
def test_keys_choose_partitions_unless_a_column_does(chunk_rows: int) -> None:
    partitions = pa.array([i % 3 if i % 2 else None for i in range(40)], pa.int32())
    rows, largest = rows_for_test(
        topic="t",
        values=KEYS,
        keys=pa.array(KEYS),
        partitions=partitions,
        chunk_rows=chunk_rows,
        partition_count=12,
    )
    by_key = [(murmur2(key) & 0x7FFFFFFF) % 12 for key in KEYS]
    assert [row[4] for row in rows] == [i % 3 if i % 2 else by_key[i] for i in range(40)]
    assert largest == [2]


def test_null_keys_and_ignored_keys_leave_the_choice() -> None:
    columns: dict[str, Any] = {
        "topic": "t",
        "values": [b"v"] * 3,
        "keys": pa.array([b"k", None, b""]),
    }
    assert [row[4] >= 0 for row in rows_for_test(**columns)[0]] == [True, False, True]
    rows, _ = rows_for_test(**columns, ignores_keys=True)
    assert [row[4] for row in rows] == [-1] * 3


@pytest.mark.parametrize(
    "keys",
    [
        Part(b"z", 3, [None, offsets32(0, 0, 0, 0), None]),
        Part(b"Z", 3, [None, offsets64(0, 0, 0, 0), None]),
        Part(b"z", 3, [b"\x07", offsets32(0, 0, 0, 0), None]),
        Part(b"w:0", 3, [None, None]),
    ],
)
def test_empty_keys_of_an_array_without_data_choose_partitions_as_any_empty_key(
    keys: Part,
) -> None:
    """Arrow allows a null pointer where there are no bytes."""
    rows, _ = rows_for_test(topic="t", values=[b"v"] * 3, keys=Exporter(keys), partition_count=12)
    by_key = (murmur2(b"") & 0x7FFFFFFF) % 12
    assert [(row[2], row[4]) for row in rows] == [(b"", by_key)] * 3


def test_partitions_that_are_not_there_are_marked_and_the_largest_told_by_topic() -> None:
    rows, largest = rows_for_test(
        topic=pa.array(["a", "b", "a", "b"]),
        values=[b""] * 4,
        partitions=np.array([5, 1, 2, 0]),
        partition_count=3,
    )
    assert [row[4] for row in rows] == [-3, 1, 2, 0]
    assert largest == [5, 1]


def test_rows_of_a_topic_without_metadata_are_marked() -> None:
    rows, _ = rows_for_test(topic=["a", "b", "a"], values=[b""] * 3, known={"b"})
    assert [(row[0], row[4]) for row in rows] == [("a", -2), ("b", -1), ("a", -2)]


def test_nulls_of_timestamps_are_the_time_of_the_call() -> None:
    times = pa.array([1_999, None, 0], pa.timestamp("us", tz="UTC"))
    rows, _ = rows_for_test(topic="t", values=[b""] * 3, timestamps_ms=times)
    assert [row[5] for row in rows] == [1, 0, 0]
