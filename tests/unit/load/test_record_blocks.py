"""fastprod.load.record_blocks: cuts between records, and what cannot be cut is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprod.load import record_blocks as module
from fastprod.load.input_files import InputError, NeedsSpark
from fastprod.load.reader_options import ReaderOptions
from fastprod.load.record_blocks import line_ending, record_blocks

OPTIONS = ReaderOptions(is_multiline=True)


@pytest.mark.parametrize("block_bytes", [1, 2, 5, 1000])
def test_no_record_is_cut(tmp_path: Path, block_bytes: int) -> None:
    path = tmp_path / "a.csv"
    records = [b"k,v\n", b'1,"x\ny"\n', b'"",5" z\n', b"\n", b'"a""\n""b",\n', b'2,"\n"']
    path.write_bytes(b"".join(records))
    blocks = list(record_blocks(str(path), OPTIONS, b"\n", block_bytes))
    assert b"".join(block.data for block in blocks) == b"".join(records)
    starts = {sum(map(len, records[:count])) for count in range(len(records))}
    assert {block.offset for block in blocks} <= starts


@pytest.mark.parametrize("block_bytes", [1, 1000])
@pytest.mark.parametrize("record", [b'"x', b'"x"y,1', b'"x" ,1', b"x\ry,1", b'a,"'])
def test_a_record_that_spark_takes_otherwise_is_told_with_its_line(
    tmp_path: Path, record: bytes, block_bytes: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'"k\n",v\n1,2\n' + record + b"\n")
    with pytest.raises(InputError, match="line 4 begins a record that Spark and pyarrow do not"):
        list(record_blocks(str(path), OPTIONS, b"\n", block_bytes))


def test_a_quoted_field_without_end_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LINE_BYTES", 1000)
    path = tmp_path / "a.csv"
    path.write_bytes(b'k\n"' + b"x\n" * 100_000)
    with pytest.raises(InputError, match=r"line 2 begins a record .* of more than 1,000 bytes"):
        list(record_blocks(str(path), OPTIONS, b"\n", 100))


def test_a_file_ends_its_lines_as_its_first_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for data, ending in ((b"a\r\nb\n", b"\r\n"), (b"a\nb\r\n", b"\n"), (b"", b"\n"), (b"a", b"\n")):
        path.write_bytes(data)
        assert line_ending(str(path)) == ending
    path.write_bytes(b"a\rb\n")
    with pytest.raises(NeedsSpark, match=r"lines end with \\r alone"):
        line_ending(str(path))
