"""The column that an encoder makes, as Arrow libraries see it."""

from __future__ import annotations

import gc

import pyarrow
import pytest

from fastprod._core.json.arrow_output import BinaryColumn
from fastprod._core.json.rows import JsonRows
from support.oracle.json_form import json_form


def encoded(rows: object) -> BinaryColumn:
    return JsonRows(json_form()).encode(rows)


def test_arrow_reads_it_without_a_copy() -> None:
    column = encoded(pyarrow.table({"a": [1, 22]}))
    one, other = pyarrow.array(column), pyarrow.array(column)
    assert one.type == pyarrow.large_binary()
    assert one.to_pylist() == [b'{"a":1}', b'{"a":22}'] == column.to_pylist()
    assert [each.address for each in one.buffers()[1:]] == [
        each.address for each in other.buffers()[1:]
    ]
    assert (len(column), column.nbytes) == (2, 15)


def test_an_exported_array_outlives_its_column() -> None:
    array = pyarrow.array(encoded(pyarrow.table({"a": ["x" * 100_000]})))
    gc.collect()
    assert array[0].as_py() == b'{"a":"' + b"x" * 100_000 + b'"}'
    array.validate(full=True)


def test_capsules_that_nobody_takes_are_let_go() -> None:
    column = encoded(pyarrow.table({"a": [1]}))
    for _ in range(3):
        assert len(column.__arrow_c_array__()) == 2
    assert column.to_pylist() == [b'{"a":1}']


def test_rows_that_are_null_stay_null() -> None:
    struct = pyarrow.array([{"a": 1}, None, {"a": None}] * 5)
    column = encoded(struct)
    assert column.to_pylist() == [b'{"a":1}', None, b"{}"] * 5
    array = pyarrow.array(column)
    assert array.null_count == 5
    assert array.to_pylist() == column.to_pylist()


def test_no_rows_are_a_column_too() -> None:
    column = encoded(pyarrow.table({"a": pyarrow.array([], pyarrow.int8())}))
    assert pyarrow.array(column).to_pylist() == column.to_pylist() == []
    assert column.nbytes == 0


def test_one_that_no_encoder_made_has_nothing_to_give() -> None:
    column = BinaryColumn()
    assert (len(column), column.nbytes, column.to_pylist()) == (0, 0, [])
    with pytest.raises(ValueError, match="not made by an encoder"):
        column.__arrow_c_array__()
