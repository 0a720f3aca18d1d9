"""Arrow by its C data interface: what is read, what is refused, and that all is released once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from fastprod._core.testing.column_doors import rows_for_test
from support.records.arrow_capsules import (
    Exporter,
    Part,
    StreamExporter,
    batch,
    binary,
    offsets32,
    offsets64,
    view,
)

LONG = b"fifteen letters"
ABSURD = 2**62


def values(column: object) -> list[bytes | None]:
    return [row[1] for row in rows_for_test(topic="t", values=column)[0]]


def assert_released_once(exporter: Exporter | StreamExporter, arrays: int = 1) -> None:
    """The schema and so many arrays."""
    gc.collect()
    assert exporter.released["schema"] == 1
    assert exporter.released["array"] == arrays


INT8 = Part(b"c", 4, [None, bytes([1, 0, 1, 2])])
TWO_VIEWS = view(3, b"abc") + view(15, LONG[:4], 1, 2)
SIZES = offsets64(0, 17)
KINDS: list[tuple[Part, list[bytes | None]]] = [
    (Part(b"z", 3, [b"\x05", offsets32(0, 1, 1, 3), b"abc"]), [b"a", None, b"bc"]),
    (Part(b"u", 2, [None, offsets32(9, 0, 1, 3), b"abc"], offset=1), [b"a", b"bc"]),
    (Part(b"Z", 2, [None, offsets64(1, 1, 3), b"abc"]), [b"", b"bc"]),
    (Part(b"U", 1, [b"\x02", offsets64(0, 0, 2), b"ab"], offset=1), [b"ab"]),
    (Part(b"vz", 2, [None, TWO_VIEWS, b"", b"__" + LONG, SIZES]), [b"abc", LONG]),
    (Part(b"vu", 2, [b"\x01", TWO_VIEWS, b"", b"__" + LONG, SIZES]), [b"abc", None]),
    (Part(b"w:2", 2, [None, b"xxabcd"], offset=1), [b"ab", b"cd"]),
    (Part(b"n", 2), [None, None]),
    (Part(b"z", 0, [None, None, None]), []),
    (
        Part(b"c", 4, [b"\x0d", bytes([1, 0, 0, 1])], dictionary=binary(b"x", b"yy")),
        [b"yy", None, b"x", b"yy"],
    ),
    (
        Part(
            b"L", 1, [None, offsets64(0)], dictionary=Part(b"z", 1, [b"\0", offsets32(0, 0), None])
        ),
        [None],
    ),
]


@pytest.mark.parametrize(("part", "found"), KINDS)
def test_every_kind_is_read_and_released_once(part: Part, found: list[bytes | None]) -> None:
    exporter = Exporter(part)
    assert values(exporter) == found
    assert_released_once(exporter)


def test_a_stream_is_read_to_its_end_and_each_array_released_once() -> None:
    parts = [binary(b"a", b"b"), binary(), binary(b"c" * 300)]
    exporter = StreamExporter(binary(), parts=parts)
    assert values(exporter) == [b"a", b"b", b"c" * 300]
    assert_released_once(exporter, arrays=3)
    assert exporter.released["stream"] == 1


def test_a_stream_without_arrays_has_a_type_all_the_same() -> None:
    assert values(StreamExporter(binary())) == []
    with pytest.raises(TypeError, match="'values' is Arrow double"):
        values(StreamExporter(Part(b"g", 0)))


@pytest.mark.parametrize(
    ("words", "arrays"),
    [
        ({"parts": [binary(b"a")], "error": b"disk full"}, 1),
        ({"error": b"disk full"}, 0),
        ({"schema_error": b"disk full"}, 0),
    ],
)
def test_a_stream_that_fails_says_why_and_what_came_before_is_released(
    words: dict[str, Any], arrays: int
) -> None:
    exporter = StreamExporter(binary(), **words)
    with pytest.raises(OSError, match="stream of 'values' cannot be read: disk full"):
        values(exporter)
    gc.collect()
    assert exporter.released["array"] == arrays
    assert exporter.released["stream"] == 1
    assert exporter.released["schema"] == ("schema_error" not in words)


def test_the_columns_of_a_batch_share_one_array() -> None:
    exporter = Exporter(batch(value=binary(b"a", b"b"), key=binary(b"k", b"l"), other=INT8))
    rows, _ = rows_for_test(exporter, topic="t")
    assert [row[1:3] for row in rows] == [(b"a", b"k"), (b"b", b"l")]
    assert_released_once(exporter)
    assert exporter.released["array"] == 1


def test_the_slice_of_a_batch_is_that_of_its_columns() -> None:
    part = batch(value=binary(b"a", b"b", b"c", b"d", offset=0))
    part.offset, part.length = 1, 2
    assert [row[1] for row in rows_for_test(Exporter(part), topic="t")[0]] == [b"b", b"c"]


DAMAGED: dict[str, Callable[[], Part]] = {
    "falling offsets": lambda: Part(b"z", 3, [None, offsets32(0, 3, 2, 4), b"abcd"]),
    "falling large offsets": lambda: Part(b"U", 2, [None, offsets64(0, 3, 2), b"abcd"]),
    "a negative offset": lambda: Part(b"z", 2, [None, offsets32(-4, 0, 1), b"a"]),
    "no offsets": lambda: Part(b"z", 2, [None, None, b"a"]),
    "no data": lambda: Part(b"z", 1, [None, offsets32(0, 4), None]),
    "no fixed data": lambda: Part(b"w:3", 1, [None, None]),
    "too few buffers": lambda: Part(b"z", 2, [None, offsets32(0, 0, 0)]),
    "null buffers": lambda: Part(b"z", 2, n_buffers=3),
    "a negative length": lambda: Part(b"z", -1, [None, offsets32(0), None]),
    "an absurd length": lambda: Part(b"z", ABSURD, [None, offsets32(0), None]),
    "a negative place": lambda: Part(b"z", 1, [None, offsets32(0, 0), None], offset=-1),
    "an absurd place": lambda: Part(b"z", 1, [None, offsets32(0, 0), None], offset=2**60),
    "a view of a negative size": lambda: Part(b"vz", 1, [None, view(-1, b""), offsets64()]),
    "a view of no buffer": lambda: Part(b"vz", 1, [None, view(15, LONG[:4]), offsets64()]),
    "a view of a buffer before the first": lambda: Part(
        b"vz", 1, [None, view(15, LONG[:4], -1), LONG, offsets64(15)]
    ),
    "a view beyond its buffer": lambda: Part(
        b"vz", 1, [None, view(15, LONG[:4], 0, 1), LONG, offsets64(15)]
    ),
    "a view before its buffer": lambda: Part(
        b"vz", 1, [None, view(15, LONG[:4], 0, -1), LONG, offsets64(15)]
    ),
    "no sizes of buffers": lambda: Part(b"vz", 1, [None, view(15, LONG[:4]), LONG, None]),
    "a missing buffer of views": lambda: Part(b"vz", 1, [None, view(1, b"a"), None, offsets64(9)]),
    "no views": lambda: Part(b"vz", 1, [None, None, offsets64()]),
    "an index beyond the dictionary": lambda: Part(
        b"c", 2, [None, bytes([0, 2])], dictionary=binary(b"x", b"y")
    ),
    "a negative index": lambda: Part(b"c", 1, [None, b"\xff"], dictionary=binary(b"x", b"y")),
    "a damaged dictionary": lambda: Part(
        b"c", 1, [None, b"\0"], dictionary=Part(b"z", 1, [None, offsets32(2, 1), b"ab"])
    ),
    "a released array": lambda: Part(b"z", 0, [None, None, None], is_released=True),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_array_is_refused_before_it_is_read_and_released_once(what: str) -> None:
    part = DAMAGED[what]()
    exporter = Exporter(part)
    with pytest.raises(ValueError, match=r"damaged|was released"):
        values(exporter)
    assert_released_once(exporter, arrays=0 if part.is_released else 1)


def test_a_damaged_row_is_named() -> None:
    falling = Part(b"z", 3, [None, offsets32(0, 3, 2, 4), b"abcd"])
    exporter = StreamExporter(binary(), parts=[binary(b"a", b"b"), falling])
    with pytest.raises(ValueError, match=r"'values' of type binary is damaged: row 3 "):
        values(exporter)
    assert_released_once(exporter, arrays=2)


@pytest.mark.parametrize(
    "part",
    [
        batch(value=binary(b"a")),
        Part(b"+s", 1, [None], [binary(b"a", name=b"value")], n_children=2**40),
        Part(None, 1, [None]),
        Part(b"+s", 5, [None], [binary(b"a", name=b"value")]),
    ],
)
def test_a_damaged_batch_is_refused(part: Part) -> None:
    if part.format == b"+s" and part.n_children is None and part.length == 1:
        part.children = [Part(None, 1, name=b"value")]
    if part.n_children is not None:
        part.n_children = -1
    exporter = Exporter(part)
    with pytest.raises(ValueError, match="damaged"):
        rows_for_test(exporter, topic="t")
    assert_released_once(exporter)


def test_rows_of_a_batch_that_are_null_as_a_whole_are_refused() -> None:
    part = batch(value=binary(b"a", b"b"))
    part.buffers = [b"\x01"]
    with pytest.raises(ValueError, match="row 1 of the columns is null as a whole"):
        rows_for_test(Exporter(part), topic="t")


def test_what_was_consumed_already_is_refused() -> None:
    exporter = Exporter(binary(b"a"))

    class Again:
        def __init__(self, capsules: tuple[object, object]) -> None:
            self.capsules = capsules

        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            return self.capsules

    again = Again(exporter.__arrow_c_array__())
    assert values(again) == [b"a"]
    with pytest.raises(ValueError, match="schema was released, or taken by somebody else"):
        values(again)
    assert_released_once(exporter)


@pytest.mark.parametrize("answer", [None, (1,), (1, 2)])
def test_an_exporter_that_answers_something_else_is_refused(answer: object) -> None:
    class Wrong:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return answer

    with pytest.raises((TypeError, ValueError)):
        values(Wrong())


def test_a_schema_whose_array_is_no_capsule_is_released_all_the_same() -> None:
    exporter = Exporter(binary(b"a"))

    class Half:
        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            return exporter.__arrow_c_array__()[0], None

    with pytest.raises(ValueError, match="PyCapsule"):
        values(Half())
    gc.collect()
    assert exporter.released["schema"] == 1
