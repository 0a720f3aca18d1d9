"""fastprod.load.column_mapping: which column is what."""

from __future__ import annotations

import pytest

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.input_files import InputError


@pytest.mark.parametrize(
    ("asked", "columns", "value", "key"),
    [
        (ColumnMapping(), ["id", "value", "key"], "value", "key"),
        (ColumnMapping(), ["line"], "line", ""),
        (ColumnMapping(), ["key", "line"], "line", "key"),
        (ColumnMapping(value="id"), ["id", "value", "key"], "id", "key"),
        (ColumnMapping(key=""), ["value", "key"], "value", ""),
        (ColumnMapping(value="key"), ["key", "x"], "key", ""),
        (ColumnMapping(value_format="json"), ["key", "x", "y"], None, "key"),
    ],
)
def test_what_is_not_given_is_found_by_name(
    asked: ColumnMapping, columns: list[str], value: str | None, key: str
) -> None:
    found = asked.resolved(columns)
    assert (found.value, found.key) == (value, key)


def test_a_column_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(InputError, match="--value: there is no column 'x'; there are a, b"):
        ColumnMapping(value="x").resolved(["a", "b"])
    with pytest.raises(InputError, match="--header-column h: there is no column 'x'"):
        ColumnMapping(value="a", header_columns=(("h", "x"),)).resolved(["a", "b"])


def test_a_value_that_nobody_can_guess_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"which column is the value\? There are a, b"):
        ColumnMapping().resolved(["a", "b"])


def test_each_column_is_read_once() -> None:
    mapping = ColumnMapping("v", "k", "p", "t", (), (("a", "k"), ("b", "h")))
    assert mapping.columns == ["v", "k", "p", "t", "h"]
