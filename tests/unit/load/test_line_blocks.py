"""fastprod.load.line_blocks: whole lines, each once, whatever is read at once."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.load import line_blocks as module
from fastprod.load.input_files import InputError
from fastprod.load.line_blocks import LineBlock, line_blocks

BOM = b"\xef\xbb\xbf"


@given(
    st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\n", b"\r", BOM]), max_size=20).map(b"".join),
    st.integers(1, 9),
    st.integers(1, 9),
)
@settings(max_examples=200)
def test_the_ranges_of_a_file_have_its_lines_each_once(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, range_bytes: int, block_bytes: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(data)
    blocks = [
        block
        for start in range(0, len(data), range_bytes)
        for block in line_blocks(str(path), start, min(start + range_bytes, len(data)), block_bytes)
    ]
    assert b"".join(block.data for block in blocks) == data.removeprefix(BOM)
    for block in blocks:
        assert data[block.offset :].startswith(block.data)
        assert block.data.endswith(b"\n") or block is blocks[-1]
        assert block.line_number(2) == data[: block.offset].count(b"\n") + 3


def test_a_packed_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(BOM + b"ab\ncd\ne"))
    assert list(line_blocks(str(path), block_bytes=4)) == [
        LineBlock(str(path), 3, b"ab\n"),
        LineBlock(str(path), 6, b"cd\n"),
        LineBlock(str(path), 9, b"e"),
    ]


@pytest.mark.parametrize("block_bytes", [1, 3, 5])
def test_a_line_that_is_too_long_is_told_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(module, "MOST_LINE_BYTES", 5)
    path = tmp_path / "a"
    path.write_bytes(b"abcd\nabcd\n")
    found = b"".join(block.data for block in line_blocks(str(path), block_bytes=block_bytes))
    assert found == b"abcd\nabcd\n"
    for data in (b"abcd\nabcde\nab\n", b"abcd\nabcdef"):
        path.write_bytes(data)
        with pytest.raises(InputError, match="line 2 has more than 5 bytes"):
            list(line_blocks(str(path), block_bytes=block_bytes))


def test_what_begins_behind_an_offset_is_what_is_left_of_a_block() -> None:
    block = LineBlock("", 10, b"ab\ncd\n")
    assert block.after(3) is block
    assert block.after(13) == LineBlock("", 13, b"cd\n")
    assert block.after(99).data == b""
