"""fastprod.load.json_reader: an object a line, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_splits import split_file
from fastprod.load.input_files import InputError, NeedsSpark, find_files
from fastprod.load.json_reader import json_types, read_json


def read(path: Path, types: dict[str, pyarrow.DataType] | None = None) -> list[dict[str, Any]]:
    split = split_file(find_files([str(path)])[0], "json")[0]
    found = read_json(split, types or {"v": pyarrow.string()})
    return [row for batch in found for row in batch.to_pylist()]


def test_empty_lines_and_white_space_around_objects_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\n \t\r\n {"v": "a"} \r\n{"v": "b"}\r{}\n\n{"v": "c"}')
    assert [row["v"] for row in read(path)] == ["a", "b", None, "c"]
    path.write_bytes(b"\n\n \n")
    assert read(path) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("null", "line 2 is not one JSON object"),
        ('[{"v": "x"}]', "line 2 is not one JSON object"),
        ('{"v": "x"}1', "line 2 is not one JSON object"),
        ('{"v": "x"}{"v": "y"}', "from line 1 on: 2 lines have 3 objects"),
        ('{"v": 1}', "from line 1 on: .*changed from string to number"),
        ('{"v": "x", "v": "y"}', "from line 1 on: .*specified twice"),
        ('{"w": "\udce4"}', "line 2 is not UTF-8"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(f'{{"v": "a"}}\n{line}\n'.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=told):
        read(path)


def test_types_are_those_of_the_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('\n{"n": 1, "t": "2026-01-01T00:00:00", "b": true}\n')
    assert json_types([str(path)], ColumnMapping("t", key="")) == {
        "n": pyarrow.int64(),
        "t": pyarrow.string(),
        "b": pyarrow.bool_(),
    }


def test_a_column_of_several_types_is_sparks(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    strings = '{"v": "x"}\n' * 200_000
    path.write_text('{"v": 1}\n' * 200_000 + strings + '{"v": "x", "k": "y"}\n')
    with pytest.raises(
        NeedsSpark, match=r"a\.json: column 'v' is of type int64 and of type string"
    ):
        json_types([str(path)], ColumnMapping("v", key="k"))
    assert json_types([str(path)], ColumnMapping("v", key="")) is not None


def test_files_without_a_line_have_no_columns(tmp_path: Path) -> None:
    for name, text in (("a.json", ""), ("b.json", " \n\n")):
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    assert json_types(paths, ColumnMapping("v")) is None
    (tmp_path / "b.json").write_text("{}\n")
    assert json_types(paths, ColumnMapping("v")) == {}
