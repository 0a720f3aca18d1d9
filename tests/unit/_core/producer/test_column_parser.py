"""What may be given as columns: batches by Kafka's names, precedence, lengths, types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastprod._core.testing.column_doors import rows_for_test

BATCH = pa.record_batch(
    {
        "ignored": pa.array([1.5, 2.5]),
        "value": pa.array([b"v0", b"v1"]),
        "key": pa.array(["k0", None]),
        "topic": pa.array(["a", "b"]),
        "partition": pa.array([2, None], pa.int32()),
        "timestamp": pa.array([5, None], pa.timestamp("ms")),
        "headers": pa.array([[("h", b"1")], None], pa.map_(pa.string(), pa.binary())),
    }
)
ROWS = [("a", b"v0", b"k0", b"\x02\x02h\x021", 2, 5), ("b", b"v1", None, b"\0", -1, 0)]


@pytest.mark.parametrize(
    "columns",
    [
        BATCH,
        pa.Table.from_batches([BATCH]),
        pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH]),
        BATCH.to_struct_array(),
        dict(zip(BATCH.schema.names, BATCH.columns, strict=True)),
        BATCH.select(BATCH.schema.names[::-1]),
    ],
    ids=lambda columns: type(columns).__name__,
)
def test_columns_are_found_by_kafkas_names_in_any_order(columns: Any) -> None:
    assert rows_for_test(columns)[0] == ROWS


def test_a_table_of_several_batches_and_their_slices() -> None:
    table = pa.Table.from_batches([BATCH[1:], BATCH, BATCH[:0], BATCH[:1]])
    assert rows_for_test(table)[0] == [ROWS[1], *ROWS, ROWS[0]]


def test_what_is_given_by_itself_wins_over_its_namesake_which_is_not_looked_at() -> None:
    wrong = BATCH.set_column(3, "topic", pa.array([1.5, None]))
    rows, _ = rows_for_test(wrong, topic="t", keys=[b"x", b"y"], partitions=[0, 0], timestamps_ms=9)
    assert [(row[0], row[2], row[4], row[5]) for row in rows] == [
        ("t", b"x", 0, 9),
        ("t", b"y", 0, 9),
    ]


def test_a_timestamp_of_numpy_serves_all_rows() -> None:
    rows, _ = rows_for_test(topic="t", values=pa.array([b"", b""]), timestamps_ms=np.int64(9))
    assert [row[5] for row in rows] == [9, 9]


def test_a_column_of_the_type_null_is_all_nulls() -> None:
    rows, _ = rows_for_test(
        topic="t",
        values=pa.nulls(2),
        keys=pa.nulls(2),
        partitions=pa.nulls(2),
        timestamps_ms=pa.nulls(2),
        headers=pa.nulls(2),
    )
    assert rows == [("t", None, None, b"\0", -1, 0)] * 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"values": pa.array([1])}, r"column 'values' is Arrow int64; it takes binary, string"),
        ({"values": pa.array([[b"a"]])}, r"'values' is Arrow list<item: binary>; it takes binary"),
        ({"keys": pa.array([1.5])}, "'keys' is Arrow double"),
        ({"keys": pa.array([7]).dictionary_encode()}, "dictionary<values=int64, indices=int32>"),
        ({"partitions": pa.array([1.5])}, "'partitions' is Arrow double; it takes integers"),
        ({"partitions": pa.array([True])}, "'partitions' is Arrow bool"),
        ({"partitions": pa.array([1], pa.timestamp("s"))}, r"Arrow timestamp\[s\]; it takes integ"),
        ({"timestamps_ms": pa.array(["1"])}, "'timestamps_ms' is Arrow string; it takes timest"),
        ({"timestamps_ms": pa.array([1], pa.date32())}, "'timestamps_ms' is Arrow date32"),
        ({"topic": pa.array([1])}, "'topic' is Arrow int64"),
        ({"topic": None}, "there is no topic"),
        ({"values": None}, "there are no values"),
        ({"headers": {"h": b"1"}}, "headers by name are header_columns"),
        ({"columns": pa.array([b"a"])}, "not a single column"),
        ({"columns": 5}, "columns must be an Arrow record batch"),
    ],
)
def test_wrong_types_are_refused_by_name_with_what_is_accepted(
    words: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        rows_for_test(**{"topic": "t", "values": [b"v"], **words})


def test_the_fields_of_a_batch_are_refused_by_their_own_names() -> None:
    wrong = BATCH.set_column(1, "value", pa.array([1.5, None]))
    with pytest.raises(TypeError, match="column 'value' is Arrow double"):
        rows_for_test(wrong)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            {"keys": pa.array([b"a"])},
            r"differ in length: \{'keys': 1, 'values': 2\}|'values': 2, '",
        ),
        ({"partitions": pa.array([-1, 0])}, r"'partitions' of type int64: row 0 is -1; it must be"),
        (
            {"timestamps_ms": pa.array([0, -5], pa.timestamp("us"))},
            r"'timestamps_ms' of type timestamp\[us\]: row 1 is -5; in ms it must be 0",
        ),
        (
            {"timestamps_ms": pa.array([0, 2**62], pa.timestamp("s"))},
            r"row 1 is 4,611,686,018,427,387,904; in ms it must be 0",
        ),
        (
            {"partitions": pa.array([2**63, 0], pa.uint64())},
            r"row 0 is 9,223,372,036,854,775,808; it must be 0",
        ),
        ({"timestamps_ms": -1}, "timestamp_ms must be 0"),
    ],
)
def test_bad_contents_are_refused_before_anything_is_read(words: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        rows_for_test(**{"topic": "t", "values": pa.array([b"a", b"b"]), **words})


def test_a_batch_without_values_or_with_two_of_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no column named 'value' among 'key', 'topic'"):
        rows_for_test(BATCH.select(["key", "topic"]))
    twice = pa.record_batch([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])
    with pytest.raises(ValueError, match="2 columns named 'value'"):
        rows_for_test(twice, topic="t")
