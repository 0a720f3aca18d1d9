"""Columns of numpy arrays and of Python sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastprod._core.testing.column_doors import rows_for_test

DAY_MS = 86_400_000


def values(column: Any) -> list[bytes | None]:
    return [row[1] for row in rows_for_test(topic="t", values=column)[0]]


def placed(partitions: Any, count: int, **words: Any) -> list[int]:
    rows, _ = rows_for_test(topic="t", values=[b""] * count, partitions=partitions, **words)
    return [row[4] for row in rows]


def stamped(times: Any, count: int) -> list[int]:
    rows, _ = rows_for_test(topic="t", values=[b""] * count, timestamps_ms=times)
    return [row[5] for row in rows]


FIXED = np.array([b"ab", b"c\0d", b""], dtype="S4")
STRUCTURED = np.array(
    [(b"k1", b"v1", 2, 7), (b"k", b"v", 0, 8)],
    dtype=[("key", "S2"), ("value", "V2"), ("partition", "<i2"), ("timestamp", "<M8[s]")],
)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (FIXED, [b"ab", b"c\0d", b""]),
        (FIXED[::-1], [b"", b"c\0d", b"ab"]),
        (FIXED[::2], [b"ab", b""]),
        (np.array([b"a\0", b"bc"], dtype="V2"), [b"a\0", b"bc"]),
        (np.array([[1, 2], [3, 4]], dtype=np.uint8), [b"\1\2", b"\3\4"]),
        (np.array([[1, 2, 9], [3, 4, 9]], dtype=np.uint8)[:, :2], [b"\1\2", b"\3\4"]),
        (np.array([[1], [2]], dtype="<i2"), [b"\1\0", b"\2\0"]),
        (STRUCTURED["value"], [b"v1", b"v\0"]),
        (np.array([(1, 2)], dtype="u1,u1"), [b"\1\2"]),
        (np.array([], dtype="S3"), []),
        ([b"a", None, bytearray(b"b"), memoryview(b"c")], [b"a", None, b"b", b"c"]),
        (iter([b"a"]), [b"a"]),
        ((), []),
    ],
)
def test_bytes_are_read_as_they_are_in_numpy_and_python(
    column: Any, found: list[bytes | None]
) -> None:
    assert values(column) == found


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_of_any_width_are_partitions(kind: str) -> None:
    column = np.array([0, 9, 2, 9, 1, 9], dtype=kind)[::2]
    assert placed(column, 3) == [0, 2, 1]


def test_a_sequence_of_partitions_may_have_gaps() -> None:
    assert placed([2, None, 0], 3) == [2, -1, 0]


@pytest.mark.parametrize(
    ("unit", "number", "found"),
    [
        ("D", 2, 2 * DAY_MS),
        ("h", 1, 3_600_000),
        ("m", 1, 60_000),
        ("s", 3, 3000),
        ("ms", 5, 5),
        ("us", 5999, 5),
        ("ns", 5_999_999, 5),
    ],
)
def test_datetimes_of_any_unit_become_milliseconds(unit: str, number: int, found: int) -> None:
    column = np.array([number, "NaT"], dtype=f"M8[{unit}]")
    assert stamped(column, 2) == [found, 0]


def test_integers_and_sequences_are_milliseconds() -> None:
    assert stamped(np.array([5, 6], dtype="u2"), 2) == [5, 6]
    assert stamped([5, None], 2) == [5, 0]


def test_a_structured_array_gives_its_fields() -> None:
    rows, _ = rows_for_test(STRUCTURED, topic="t")
    assert rows == [
        ("t", b"v1", b"k1", None, 2, 7000),
        ("t", b"v\0", b"k", None, 0, 8000),
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"values": np.array([1.5])}, r"'values' is numpy float64; of numpy it takes fixed-width"),
        ({"values": np.array([1, 2])}, r"'values' is numpy int64; .*two dimensions"),
        ({"values": np.ma.array([b"a"], mask=[True])}, "masked numpy array"),
        ({"keys": np.zeros((2, 2), dtype="u1")[:, ::-1]}, "'keys' is numpy uint8"),
        ({"partitions": np.array([1.0])}, "'partitions' is numpy float64; of numpy it takes integ"),
        ({"partitions": np.array([True])}, "'partitions' is numpy bool"),
        ({"partitions": np.array([1], dtype=">i4")}, "this machine's byte order"),
        ({"partitions": np.array([[1]])}, "'partitions' is numpy int64"),
        ({"timestamps_ms": np.array([1], dtype="M8[Y]")}, r"datetime64\[Y\]"),
        ({"timestamps_ms": np.array([1], dtype="M8[10ms]")}, "datetime64"),
        ({"timestamps_ms": np.array([1], dtype=">M8[ms]")}, "datetime64"),
        ({"timestamps_ms": np.array([1], dtype="m8[ms]")}, "timedelta64"),
        ({"headers": np.array([b"a"])}, "no numpy type"),
        ({"values": b"abc"}, "must be an Arrow array, a numpy array or a sequence, not bytes"),
        ({"values": 5}, "not int"),
        ({"values": ["text"]}, "value must be bytes, a contiguous buffer or None, not str"),
        ({"keys": [object()]}, "key must be bytes"),
        ({"partitions": ["1"]}, "partition must be an int or None, not str"),
        ({"partitions": [1.0]}, "partition must be an int"),
        ({"timestamps_ms": [True]}, "timestamp_ms must be an int"),
    ],
)
def test_other_types_are_refused_by_name(words: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        rows_for_test(topic="t", **{"values": [b"v"], **words})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"partitions": np.array([0, -1])}, r"'partitions' of type numpy int64: row 1 is -1; it"),
        ({"partitions": np.array([0, 2**31])}, "row 1 is 2,147,483,648"),
        ({"partitions": np.array([0, 2**64 - 1], dtype="u8")}, "row 1 "),
        ({"timestamps_ms": np.array([-1, 0])}, "'timestamps_ms' of type numpy int64: row 0 is -1"),
        ({"timestamps_ms": np.array([0, 2**60], dtype="M8[s]")}, "row 1 is 1,152"),
        ({"timestamps_ms": np.array([0, -1], dtype="M8[ns]")}, "row 1 is -1"),
        ({"partitions": [0, -1]}, "partition must be 0"),
    ],
)
def test_numbers_out_of_range_are_refused_with_their_row(words: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        rows_for_test(topic="t", values=[b"", b""], **words)
