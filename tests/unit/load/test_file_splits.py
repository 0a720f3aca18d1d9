"""fastprod.load.file_splits: where files are cut."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from fastprod.load.file_splits import FileSplit, split_file
from fastprod.load.input_files import InputError, find_files


def test_text_is_cut_into_ranges_that_cover_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 1000)
    splits = split_file(find_files([str(path)])[0], "csv", 300)
    assert [(split.start, split.stop, split.size_bytes) for split in splits] == [
        (0, 250, 250),
        (250, 500, 250),
        (500, 750, 250),
        (750, 1000, 250),
    ]
    assert str(splits[1]) == f"{path}, bytes 250 to 499"


def test_what_cannot_be_cut_is_one_split(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"x" * 1000)
    (tmp_path / "b.csv").write_bytes(b"x" * 1000)
    packed, multiline = find_files([str(tmp_path)])
    assert split_file(packed, "csv", 300) == [FileSplit(packed, "file", 0, 1, 1000)]
    assert len(split_file(multiline, "csv", 300, by_lines=False)) == 1


def test_an_empty_file_has_no_split(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert split_file(find_files([str(tmp_path)])[0], "text") == []


def test_row_groups_are_gathered_up_to_the_wanted_size(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"value": [f"{number:050}" for number in range(1000)]})
    pyarrow.parquet.write_table(table, path, row_group_size=100)
    file = find_files([str(path)])[0]
    splits = split_file(file, "parquet", file.size_bytes // 4)
    assert [split.unit for split in splits] == ["row_groups"] * len(splits)
    assert [split.start for split in splits][1:] == [split.stop for split in splits][:-1]
    assert (splits[0].start, splits[-1].stop) == (0, 10)
    assert 4 <= len(splits) <= 5
    assert sum(split.size_bytes for split in splits) == pytest.approx(file.size_bytes, abs=10)


def test_row_groups_of_about_the_wanted_size_are_not_gathered_in_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    schema = pyarrow.schema([("value", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none") as writer:
        for count in (99, 101, 100, 98, 102):
            rows = [f"{number:050}" for number in range(count)]
            writer.write_table(pyarrow.table({"value": rows}, schema))
    file = find_files([str(path)])[0]
    splits = split_file(file, "parquet", file.size_bytes // 5)
    assert [(split.start, split.stop) for split in splits] == [(at, at + 1) for at in range(5)]


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("id,name")
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        split_file(find_files([str(path)])[0], "parquet")
