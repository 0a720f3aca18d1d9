"""Headers out of columns, encoded as `send` encodes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from fastprod._core.testing.column_doors import rows_for_test
from support.oracle import record_batch as oracle

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
ROWS: list[list[tuple[str, bytes | None]] | None] = [
    [("a", b"1"), ("b", None)],
    None,
    [],
    [("\u00e9" * 70, b"x" * 200)],
]
TYPES = [
    pa.list_(PAIR),
    pa.large_list(PAIR),
    pa.map_(pa.string(), pa.binary()),
    pa.list_(pa.struct([("key", pa.large_binary()), ("value", pa.string_view())])),
]

Pairs = Sequence[tuple[str, bytes | None]]


def encoded(count: int, **words: Any) -> list[bytes | int | None]:
    return [row[3] for row in rows_for_test(topic="t", values=[b""] * count, **words)[0]]


def expected(rows: Sequence[Pairs | None], extra: Sequence[Pairs] | None = None) -> list[bytes]:
    more = extra or [()] * len(rows)
    return [oracle.encode_headers((*(row or ()), *more[i])) for i, row in enumerate(rows)]


def arrow_rows(kind: pa.DataType) -> list[Any]:
    if pa.types.is_map(kind):
        return list(ROWS)
    return [row and [{"key": k, "value": v} for k, v in row] for row in ROWS]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_lists_and_maps_of_pairs_are_headers(kind: pa.DataType) -> None:
    array = pa.array(arrow_rows(kind), kind)
    assert encoded(4, headers=array) == expected(ROWS)
    assert encoded(2, headers=array[2:]) == expected(ROWS[2:])
    assert encoded(4, headers=pa.chunked_array([array[:1], array[1:]])) == expected(ROWS)


def test_names_and_values_of_headers_may_be_dictionaries() -> None:
    parts = [pa.array(["a", "b", "a"]), pa.array([b"1", None, b"x"])]
    entries = pa.StructArray.from_arrays([p.dictionary_encode() for p in parts], ["key", "value"])
    array = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), entries)
    rows: list[Pairs] = [[("a", b"1"), ("b", None)], [], [("a", b"x")]]
    assert encoded(3, headers=array) == expected(rows)


def test_a_sequence_of_headers_may_stand_beside_columns() -> None:
    assert encoded(4, headers=ROWS, partitions=pa.array([0] * 4))[0] == expected(ROWS)[0]
    assert encoded(2, headers=[{"k": b"v"}, None]) == expected([[("k", b"v")], None])


@pytest.mark.parametrize("chunk_rows", [1, 3, 64])
def test_flat_columns_and_constants_come_in_the_order_given(chunk_rows: int) -> None:
    flat = {
        "one": pa.array([b"1", None, b"", b"4" * 300]),
        "same": b"constant",
        "none": None,
        "two": [b"a", None, b"c", b"d"],
    }
    cells = [b"1", None, b"", b"4" * 300]
    others = [b"a", None, b"c", b"d"]
    extra = [
        (("one", cells[i]), ("same", b"constant"), ("none", None), ("two", others[i]))
        for i in range(4)
    ]
    assert encoded(4, header_columns=flat, chunk_rows=chunk_rows) == expected([()] * 4, extra)
    assert encoded(4, header_columns=list(flat.items()), headers=ROWS) == expected(ROWS, extra)
    lists = pa.array(arrow_rows(TYPES[0]), TYPES[0])
    assert encoded(4, header_columns=flat, headers=lists) == expected(ROWS, extra)


def test_constants_alone_are_encoded_once_for_all_rows() -> None:
    pairs = [("a", b"1"), ("a", b"2")]
    assert encoded(20, header_columns=pairs) == expected([pairs] * 20)


def test_headers_that_no_record_can_have_are_not_copied() -> None:
    """Their size is known, which the refusal of the record tells."""
    column = pa.array([b"a", b"x" * 5000, b"c"])
    found = encoded(3, header_columns={"h": column}, largest=1000)
    assert found == [*expected([[("h", b"a")]]), 5000 + 5, *expected([[("h", b"c")]])]
    assert encoded(2, header_columns={"h": b"x" * 5000}, largest=1000) == [5005, 5005]
    lists = pa.array([[{"key": "h", "value": b"x" * 5000}], None], TYPES[0])
    assert encoded(2, headers=lists, largest=1000) == [5005, b"\0"]
    assert encoded(2, headers=[[("h", b"x" * 5000)], None], largest=1000) == [5005, b"\0"]


def test_rows_of_a_chunk_with_much_in_their_headers_are_all_encoded() -> None:
    cells = [bytes([i]) * 400_000 for i in range(9)]
    found = encoded(9, header_columns={"h": pa.array(cells)}, chunk_rows=64)
    assert found == expected([[("h", cell)] for cell in cells])


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.struct([("key", pa.string())]),
        pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])),
        pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())])),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())])),
        pa.list_(pa.struct([("key", pa.string())])),
        pa.list_view(PAIR),
        pa.string(),
    ],
    ids=str,
)
def test_other_types_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match=r"column 'headers' is Arrow .*; it takes|'headers' is Arr"):
        encoded(1, headers=pa.nulls(1, kind))


@pytest.mark.parametrize("name", [None, "ok"])
def test_a_header_without_a_name_is_refused_with_its_row(name: str | None) -> None:
    rows = pa.array([[], [{"key": "ok", "value": b""}, {"key": name, "value": b"1"}]], TYPES[0])
    if name is not None:
        assert encoded(2, headers=rows)
        return
    with pytest.raises(ValueError, match="a header of row 1 has no name"):
        encoded(2, headers=rows)


@pytest.mark.parametrize("kind", [TYPES[0], TYPES[1]], ids=str)
def test_a_null_entry_matters_to_the_rows_that_have_it_only(kind: pa.DataType) -> None:
    """S11: neither outside of a slice nor behind a row that is null."""
    good: list[Any] = [{"key": "a", "value": b"1"}]
    array = pa.array([[None], good, good, [None]], kind)
    assert encoded(2, headers=array[1:3]) == expected([[("a", b"1")]] * 2)
    with pytest.raises(ValueError, match=r"a header of row 2 has no name"):
        encoded(3, headers=array[1:])
    hidden = type(array).from_arrays(
        array.offsets, array.values, mask=pa.array([True, False, False, True])
    )
    assert encoded(4, headers=hidden) == expected([None, [("a", b"1")], [("a", b"1")], None])


def test_a_null_entry_of_a_sliced_child_is_that_of_its_row() -> None:
    """S11: the entries are a slice themselves."""
    good: Any = {"key": "a", "value": b"1"}
    entries = pa.array([None, good, good, None], PAIR)
    offsets = pa.array([0, 1, 2], pa.int32())
    array = pa.ListArray.from_arrays(offsets, entries.slice(1))
    assert encoded(2, headers=array) == expected([[("a", b"1")]] * 2)
    with pytest.raises(ValueError, match=r"a header of row 1 has no name"):
        encoded(2, headers=pa.ListArray.from_arrays(offsets, entries.slice(2)))


def test_an_entry_that_is_null_is_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        encoded(1, headers=pa.array([[None]], TYPES[0]))


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"h": "text"}, TypeError, "value of header 'h' must be bytes"),
        ({5: b"v"}, TypeError, "header_columns must be a mapping from names"),
        ([("h",)], TypeError, "pairs"),
        ({"h": pa.array([1, 2])}, TypeError, "column 'header h' is Arrow int64"),
        ({"h": [b"only one"]}, ValueError, "differ in length: .*'header h': 1"),
    ],
)
def test_bad_header_columns_are_refused(given: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        encoded(2, header_columns=given)
