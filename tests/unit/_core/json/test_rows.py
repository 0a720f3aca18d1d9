"""Rows as JSON texts; tests/property has the same for arbitrary types."""

from __future__ import annotations

import json
import threading
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from fastprod._core.json.rows import JsonRows
from support.oracle.json_form import json_form


def texts(rows: object, ignores_nulls: bool = True, offset_s: int = 0) -> list[str]:
    column = JsonRows(json_form(ignores_nulls, offset_s)).encode(rows)
    return [each.decode() for each in column.to_pylist() if each is not None]


def one(value: Any, kind: pyarrow.DataType, **options: Any) -> str:
    """The text of a row with one column, c."""
    return texts(pyarrow.table({"c": pyarrow.array([value], kind)}), **options)[0]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, pyarrow.bool_(), "true"),
        (-128, pyarrow.int8(), "-128"),
        (2**64 - 1, pyarrow.uint64(), "18446744073709551615"),
        (1.1, pyarrow.float32(), "1.1"),
        (1e7, pyarrow.float64(), "1.0E7"),
        (float("nan"), pyarrow.float64(), '"NaN"'),
        (float("-inf"), pyarrow.float32(), '"-Infinity"'),
        (Decimal("1.50"), pyarrow.decimal128(38, 2), "1.50"),
        (Decimal("1E-8"), pyarrow.decimal128(38, 8), "1E-8"),
        ('"\n\u20ac', pyarrow.string(), '"\\"\\n\u20ac"'),
        (b"\0\xff\x10", pyarrow.binary(), '"AP8Q"'),
        (date(1582, 10, 10), pyarrow.date32(), '"1582-10-10"'),
        (3_000_000, pyarrow.date32(), '"+10183-09-21"'),
        (datetime(1, 1, 1), pyarrow.timestamp("us"), '"0001-01-01T00:00:00.000"'),
        (-1, pyarrow.timestamp("us"), '"1969-12-31T23:59:59.999"'),
        (1, pyarrow.timestamp("ns"), '"1970-01-01T00:00:00.000"'),
        (0, pyarrow.timestamp("s", "UTC"), '"1970-01-01T00:00:00.000Z"'),
        (45_296_100_000_000, pyarrow.time64("ns"), '"12:34:56.1"'),
        (0, pyarrow.time32("s"), '"00:00:00"'),
        ([1, None], pyarrow.list_(pyarrow.int8()), "[1,null]"),
        ([], pyarrow.large_list(pyarrow.int8()), "[]"),
        ([("a", None)], pyarrow.map_(pyarrow.string(), pyarrow.int8()), '{"a":null}'),
        ({"a": None}, pyarrow.struct([("a", pyarrow.int8())]), "{}"),
        ({}, pyarrow.struct([]), "{}"),
    ],
)
def test_a_value_has_the_text_that_spark_gives_it(
    value: Any, kind: pyarrow.DataType, text: str
) -> None:
    assert one(value, kind) == f'{{"c":{text}}}'


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (1, pyarrow.int64(), "1"),
        (True, pyarrow.bool_(), "true"),
        (1e10, pyarrow.float64(), "1.0E10"),
        (float("nan"), pyarrow.float64(), "NaN"),
        (Decimal("1E-9"), pyarrow.decimal128(20, 9), "1E-9"),
        (date(2020, 1, 2), pyarrow.date32(), "18263"),
        (datetime(2020, 1, 2), pyarrow.timestamp("us"), "1577923200000000"),
        (45_240_000_000_000, pyarrow.time64("ns"), "45240000000000"),
        ('a"', pyarrow.string(), 'a\\"'),
    ],
)
def test_a_key_is_what_the_value_is_inside_of_spark(
    key: Any, kind: pyarrow.DataType, text: str
) -> None:
    found = one([(key, 1)], pyarrow.map_(kind, pyarrow.int8()))
    assert found == f'{{"c":{{"{text}":1}}}}'


def test_nulls_are_left_out_or_written_in_structs_of_every_depth() -> None:
    rows = pyarrow.table({"a": [None], "b": [{"c": None, "d": [None]}], "e": [1]})
    assert texts(rows) == ['{"b":{"d":[null]},"e":1}']
    assert texts(rows, ignores_nulls=False) == ['{"a":null,"b":{"c":null,"d":[null]},"e":1}']


def test_names_are_escaped() -> None:
    assert texts(pyarrow.table({'a"\\\n\u20ac': [1]})) == ['{"a\\"\\\\\\n\u20ac":1}']


def test_a_tables_chunks_and_a_batchs_slice_keep_their_rows() -> None:
    inner = pyarrow.array([[i, None] for i in range(20)], pyarrow.list_(pyarrow.int32()))
    table = pyarrow.table(
        {"i": list(range(20)), "s": [{"x": f"{i}"} for i in range(20)], "l": inner}
    )
    parts = pyarrow.concat_tables([table.slice(3, 4), table.slice(9, 5)])
    wanted = [{"i": i, "s": {"x": f"{i}"}, "l": [i, None]} for i in [*range(3, 7), *range(9, 14)]]
    assert [json.loads(each) for each in texts(parts)] == wanted
    batch = table.to_batches()[0].slice(5, 2)
    assert [json.loads(each)["i"] for each in texts(batch)] == [5, 6]


@pytest.mark.parametrize(
    ("number", "offset_s", "text"),
    [
        (2**63 - 1, 3600, "+292277026596-12-04T16:30:07.000+01:00"),
        (-(2**63), -3600, "-292277022657-01-27T07:29:52.000-01:00"),
    ],
)
def test_the_farthest_times_are_moved_too(number: int, offset_s: int, text: str) -> None:
    found = one(number, pyarrow.timestamp("s", "Europe/Berlin"), offset_s=offset_s)
    assert found == f'{{"c":"{text}"}}'


@pytest.mark.parametrize("number", [2**61, -(2**61) + 1])
def test_what_is_no_time_of_day_is_a_number_and_no_other(number: int) -> None:
    times = pyarrow.Array.from_buffers(
        pyarrow.time64("us"), 1, [None, pyarrow.array([number]).buffers()[1]]
    )
    assert texts(pyarrow.table({"c": times})) == [f'{{"c":"{number}"}}']


def test_the_zone_moves_the_clock_and_is_told() -> None:
    kind = pyarrow.timestamp("us", "Europe/Berlin")
    assert one(0, kind, offset_s=3208) == '{"c":"1970-01-01T00:53:28.000+00:53:28"}'


def test_threads_share_one_encoder() -> None:
    encoder = JsonRows(json_form())
    table = pyarrow.table({"a": [f"{i}" for i in range(5_000)]})
    wanted = encoder.encode(table).to_pylist()
    found: list[list[bytes | None]] = []

    def work() -> None:
        found.extend(encoder.encode(table).to_pylist() for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [wanted] * 20


@pytest.mark.parametrize("rows", [pyarrow.array([1]), [{"a": 1}], None])
def test_what_is_no_struct_is_refused(rows: object) -> None:
    with pytest.raises(TypeError, match="rows must be an Arrow record batch, table or struct"):
        texts(rows)


def test_what_is_no_format_is_refused() -> None:
    with pytest.raises(TypeError, match="form must be a JsonFormat, not dict"):
        JsonRows({})  # type: ignore[arg-type]
