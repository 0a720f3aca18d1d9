"""fastprod._core.columns.detect: rows of a bulk send out of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from fastprod._core.columns.detect import is_plain, iter_rows

NOW_MS = 1_700_000_000_000


def rows(values: Any, **columns: Any) -> list[tuple[Any, Any, Any, Any, int]]:
    given = {"keys": None, "headers": None, "partitions": None, "timestamps_ms": None} | columns
    return list(iter_rows(values, **given, now_ms=NOW_MS))


def test_values_alone_get_the_time_of_the_call_and_nothing_else() -> None:
    assert rows([b"a", None]) == [
        (b"a", None, None, None, NOW_MS),
        (None, None, None, None, NOW_MS),
    ]


def test_every_column_reaches_its_place_in_the_row() -> None:
    assert rows(
        [b"a", b"b"],
        keys=[b"k", None],
        headers=[[("h", b"1")], None],
        partitions=[3, None],
        timestamps_ms=[5, 0],
    ) == [
        (b"a", b"k", [("h", b"1")], 3, 5),
        (b"b", None, None, None, 0),
    ]


@pytest.mark.parametrize(
    ("column", "place"), [("keys", 1), ("headers", 2), ("partitions", 3), ("timestamps_ms", 4)]
)
def test_a_single_column_leaves_the_others_empty(column: str, place: int) -> None:
    expected: list[Any] = [b"v", None, None, None, NOW_MS]
    expected[place] = 7
    assert rows([b"v"], **{column: [7]}) == [tuple(expected)]


def test_one_timestamp_serves_all_rows() -> None:
    assert [row[4] for row in rows([b"a", b"b"], timestamps_ms=9)] == [9, 9]
    assert [row[4] for row in rows([b"a", b"b"], timestamps_ms=9, keys=[b"k", b"l"])] == [9, 9]


def test_a_timestamp_of_numpy_serves_all_rows() -> None:
    (found,) = rows([b"a"], timestamps_ms=numpy.int64(9))
    assert found[4] == 9
    assert type(found[4]) is int


@pytest.mark.parametrize("column", ["keys", "headers", "partitions", "timestamps_ms"])
@pytest.mark.parametrize("cells", [b"ab", "ab", bytearray(b"ab"), 2.5, Ellipsis])
def test_what_is_no_column_is_refused_by_its_name(column: str, cells: Any) -> None:
    with pytest.raises(TypeError, match=f"column for {column}.* not {type(cells).__name__}$"):
        rows([b"a", b"b"], **{column: cells})


@pytest.mark.parametrize("values", [b"ab", "ab", None, 5])
def test_values_that_are_no_column_are_refused(values: Any) -> None:
    with pytest.raises(TypeError, match=f"column for values.* not {type(values).__name__}$"):
        rows(values)


@pytest.mark.parametrize("partition", [0, numpy.int64(0)])
def test_one_partition_for_all_is_no_column(partition: Any) -> None:
    with pytest.raises(TypeError, match=r"column for partitions.* not int\d*$"):
        rows([b"a", b"b"], partitions=partition)


def test_a_row_without_a_timestamp_gets_the_time_of_the_call() -> None:
    assert [row[4] for row in rows([b"a", b"b"], timestamps_ms=[None, 3])] == [NOW_MS, 3]


def test_no_rows_come_of_no_values() -> None:
    assert rows([]) == []
    assert rows([], keys=[]) == []


@pytest.mark.parametrize("column", ["keys", "headers", "partitions", "timestamps_ms"])
@pytest.mark.parametrize("length", [1, 3])
def test_a_column_of_another_length_is_refused_before_the_first_row(
    column: str, length: int
) -> None:
    with pytest.raises(ValueError, match="differ in length") as caught:
        iter_rows(
            [b"a", b"b"],
            **(
                {"keys": None, "headers": None, "partitions": None, "timestamps_ms": None}
                | {column: [None] * length}
            ),
            now_ms=NOW_MS,
        )
    assert f"'values': 2, '{column}': {length}" in str(caught.value)


@pytest.mark.parametrize("length", [1, 3])
def test_an_iterator_of_another_length_is_refused_where_it_ends(length: int) -> None:
    found = iter_rows([b"a", b"b"], iter([b"k"] * length), None, None, None, NOW_MS)
    assert next(found) == (b"a", b"k", None, None, NOW_MS)
    with pytest.raises(ValueError, match="zip"):
        list(found)


def test_rows_are_made_as_they_are_asked_for() -> None:
    """A generator of many values is not gathered first."""
    taken = []

    def values() -> Iterator[bytes]:
        for number in range(3):
            taken.append(number)
            yield b"%d" % number

    for keys in (None, iter([b"k"] * 3)):
        taken.clear()
        found = iter_rows(values(), keys, None, None, None, NOW_MS)
        next(found)
        assert taken == [0]


def test_lists_of_values_and_keys_are_plain_and_anything_else_is_not() -> None:
    assert is_plain([b"1"], None, None, None, None)
    assert is_plain((b"1",), [b"k"], None, None, 7)
    assert not is_plain(iter([b"1"]), None, None, None, None)
    assert not is_plain([b"1"], iter([b"k"]), None, None, None)
    assert not is_plain([b"1"], None, [()], None, None)
    assert not is_plain([b"1"], None, None, [0], None)
    assert not is_plain([b"1"], None, None, None, [7])
    assert not is_plain([b"1"], None, None, None, -7)
