"""A segment in files (contract B-C1.2, B-C3, B-C4.4; LogSegmentTest)."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import pytest

from fastprod._core.log.batch_validator import stamp
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.file_handle import FileHandle
from fastprod.broker.log.segments.file_segment import FileSegment, file_name
from fastprod.broker.log.segments.segment import Appended
from support.broker.log_batches import TIME, batch, open_log


def filled(folder: Path, offsets: list[int], **settings: Any) -> FileSegment:
    """One record at each offset."""
    segment = FileSegment(folder, offsets[0], TIME, LogConfig(compact=True, **settings))
    segment.create()
    for offset in offsets:
        data = batch()
        stamp(data, offset, 0, TIME)
        segment.append(Appended(data, offset, offset, TIME + offset))
    return segment


def test_names_have_twenty_digits(tmp_path: Path) -> None:
    """B-C1.2."""
    assert file_name(2**40, ".log") == "00000001099511627776.log"
    filled(tmp_path, [7])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000007.index",
        "00000000000000000007.log",
        "00000000000000000007.timeindex",
    ]


def test_a_read_in_a_gap_gives_the_next_batch(tmp_path: Path) -> None:
    """B-C5.1, testReadFromGap: after compaction offsets may be missing."""
    segment = filled(tmp_path, [10, 11, 40, 41], index_interval_bytes=0)
    for offset, found in ((0, 10), (11, 11), (12, 40), (39, 40), (41, 41)):
        parts = segment.read(offset, 0, True, 99)
        assert parts is not None
        assert int.from_bytes(bytes(parts[0])[:8], "big") == found
    assert segment.read(42, 0, True, 99) is None


def test_a_full_index_ends_the_segment(tmp_path: Path) -> None:
    """B-C4.4; the time index keeps its last slot (B-C3.3)."""
    log = open_log(tmp_path, segment_index_bytes=36, index_interval_bytes=0)
    for i in range(12):
        log.append(batch(timestamp=TIME + i), 0)
    log.close()
    assert len(log._segments) > 2
    for path in (tmp_path / "t-0").glob("*index"):
        assert path.stat().st_size <= 36


def test_entries_come_when_more_than_the_interval_was_written(tmp_path: Path) -> None:
    """B-C3.1: last offset and start of the batch."""
    size = len(batch())
    segment = filled(tmp_path, list(range(6)), index_interval_bytes=2 * size - 1)
    assert segment._positions.entries() == [(2, 2 * size), (4, 4 * size)]
    assert segment._times.entries() == [(TIME + 2, 2), (TIME + 4, 4)]
    segment.finish()
    assert segment._times.entries()[-1] == (TIME + 5, 5)


def test_a_batch_larger_than_a_block_is_stepped_over(tmp_path: Path) -> None:
    log = open_log(tmp_path, max_message_bytes=1 << 24)
    for size in (10, 3_000_000, 10, 20_000, 10):
        log.append(batch(2, timestamp=TIME + size, value=b"x" * size), 0)
    for offset in range(10):
        (part,) = log.read(offset, 0, True)
        assert int.from_bytes(bytes(part)[:8], "big") == offset - offset % 2
    assert log.offset_for_timestamp(TIME + 11) == (2, TIME + 3_000_000)
    assert log.offset_of_max_timestamp() == (2, TIME + 3_000_000)
    log.delete_records(5)
    assert log.offset_of_max_timestamp() == (6, TIME + 20_000)
    log.close()


def test_a_walk_holds_the_file_that_it_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may need the descriptor before the file is mapped, and get its number."""
    segment = filled(tmp_path, [0, 1, 2])
    (tmp_path / "other").write_bytes(bytes(segment.size_bytes))
    others: list[FileHandle] = []
    real_mmap = mmap.mmap

    def mmap_later(fd: int, size: int, access: int) -> mmap.mmap:
        segment.close()
        others.append(FileHandle(tmp_path / "other"))
        return real_mmap(fd, size, access=access)

    monkeypatch.setattr(mmap, "mmap", mmap_later)
    assert [info.base_offset for info, _ in segment.batches_from(0)] == [0, 1, 2]
