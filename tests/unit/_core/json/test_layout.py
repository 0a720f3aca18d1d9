"""Which Arrow types have a form in JSON, and which arrays are told to be damaged."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from fastprod._core.json.layout import JsonFormat
from fastprod._core.json.rows import JsonRows
from fastprod._core.json.times import TimePattern, ZoneOffsets
from support.oracle.json_form import DATE, json_form

VARIANT = pyarrow.struct(
    [
        pyarrow.field("value", pyarrow.binary()),
        pyarrow.field("metadata", pyarrow.binary(), metadata={"x": "y", "variant": "true"}),
    ]
)


def encode(rows: object, form: JsonFormat | None = None) -> list[bytes | None]:
    return JsonRows(form or json_form()).encode(rows).to_pylist()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pyarrow.duration("us"), "day-time interval"),
        (pyarrow.month_day_nano_interval(), "interval"),
        (VARIANT, "variant"),
        (pyarrow.decimal256(40, 2), "d:40,2,256"),
        (pyarrow.float16(), "halffloat"),
        (pyarrow.date64(), "date64"),
        (pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()), "dictionary<"),
    ],
)
def test_a_type_without_a_form_is_refused_by_its_name_and_its_columns(
    kind: pyarrow.DataType, name: str
) -> None:
    rows = pyarrow.table({"outer": pyarrow.nulls(1, pyarrow.struct([("inner", kind)]))})
    with pytest.raises(TypeError, match=r"column 'outer\.inner' is of type ") as caught:
        encode(rows)
    assert f"of type {name}" in str(caught.value)
    assert "cast it to a string, or leave it out" in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.binary(),
        pyarrow.list_(pyarrow.int8()),
        pyarrow.struct([("a", pyarrow.int8())]),
        pyarrow.map_(pyarrow.string(), pyarrow.int8()),
    ],
)
def test_keys_that_are_no_names_are_refused(kind: pyarrow.DataType) -> None:
    rows = pyarrow.table({"m": pyarrow.nulls(1, pyarrow.map_(kind, pyarrow.int8()))})
    with pytest.raises(TypeError, match=r"column 'm' is a map with keys of type .*transform_keys"):
        encode(rows)


def test_a_struct_that_looks_like_a_variant_is_a_struct() -> None:
    rows = pyarrow.table({"v": [{"value": b"a", "metadata": b"b"}]})
    assert encode(rows) == [b'{"v":{"value":"YQ==","metadata":"Yg=="}}']


def test_the_zone_is_asked_for_by_the_name_in_the_type_and_its_errors_are_passed_on() -> None:
    asked: list[str] = []

    def zone_of(name: str) -> ZoneOffsets:
        asked.append(name)
        if name == "Nowhere":
            raise ValueError("there is no such zone")
        return ZoneOffsets([], [3600])

    hours = TimePattern([("H", 2), ("x", 3)])
    form = JsonFormat(
        date_pattern=TimePattern(DATE),
        timestamp_pattern=hours,
        timestamp_ntz_pattern=hours,
        zone_of=zone_of,
        ignores_nulls=True,
    )
    rows = pyarrow.table({"t": pyarrow.array([0], pyarrow.timestamp("us", "A/B"))})
    assert encode(rows, form) == [b'{"t":"01+01:00"}']
    assert asked == ["A/B"]
    bad = pyarrow.table({"t": pyarrow.array([0], pyarrow.timestamp("us", "Nowhere"))})
    with pytest.raises(ValueError, match="there is no such zone"):
        encode(bad, form)


BYTES = pyarrow.array([1], pyarrow.int8())


def spoiled(
    kind: pyarrow.DataType, good: bytes, bad: bytes, child: Any = None
) -> pyarrow.RecordBatch:
    """One row whose offsets or view change once Arrow has looked at them."""
    buffer = bytearray(good)
    buffers = [None, pyarrow.py_buffer(buffer)]
    if child is None:
        buffers.append(pyarrow.py_buffer(b"abc"))
    array = pyarrow.Array.from_buffers(kind, 1, buffers, children=[] if child is None else [child])
    batch = pyarrow.RecordBatch.from_arrays([array], names=["c"])
    buffer[:] = bad
    return batch


def offsets(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)


@pytest.mark.parametrize(
    "damaged",
    [
        spoiled(pyarrow.string(), offsets(0, 3), offsets(5, 2)),
        spoiled(pyarrow.binary(), offsets(0, 3), offsets(-1, 2)),
        spoiled(pyarrow.list_(pyarrow.int8()), offsets(0, 1), offsets(0, 9), BYTES),
        spoiled(pyarrow.string_view(), offsets(1, 97, 0, 0), offsets(32, 97, 0, 0)),
        spoiled(pyarrow.string_view(), offsets(1, 97, 0, 0), offsets(32, 97, 1, 0)),
        spoiled(pyarrow.string_view(), offsets(1, 97, 0, 0), offsets(-1, 97, 0, 0)),
    ],
)
def test_offsets_that_point_outside_are_told(damaged: pyarrow.RecordBatch) -> None:
    with pytest.raises(ValueError, match="damaged"):
        encode(damaged)


def test_an_index_beyond_its_dictionary_is_told() -> None:
    index = pyarrow.array([7], pyarrow.int8())
    damaged = pyarrow.DictionaryArray.from_arrays(index, pyarrow.array(["a"]), safe=False)
    with pytest.raises(ValueError, match="damaged"):
        encode(pyarrow.table({"c": damaged}))
