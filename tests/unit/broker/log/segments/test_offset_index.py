"""Indexes in Kafka's formats (contract B-C3; OffsetIndexTest, TimeIndexTest)."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from fastprod.broker.log.segments.offset_index import OffsetIndex, TimeIndex

BASE = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_the_floor_entry_is_found(path: Path) -> None:
    """B-C3.6."""
    index = OffsetIndex(path, BASE)
    assert (index.position_of(99), index.last_position) == (0, -1)
    for offset, position in ((44, 100), (50, 300), (51, 350)):
        index.append(offset, position)
    looked_up = [index.position_of(offset) for offset in (0, 40, 43, 44, 49, 50, 51, 999)]
    assert looked_up == [0, 0, 0, 100, 100, 300, 350, 350]
    assert (index.last_position, len(index), index.size_bytes) == (350, 3, 24)


def test_times_lead_to_the_batch_that_reached_them(path: Path) -> None:
    """B-C3.1, B-C3.3: a time index never goes backwards."""
    index = TimeIndex(path, BASE)
    assert index.last == (-1, BASE)
    for timestamp, offset in ((-1, 40), (10, 44), (10, 46), (9, 48), (30, 50)):
        index.append(timestamp, offset)
    assert index.entries() == [(10, 4), (30, 10)]
    assert index.last == (30, 50)
    looked_up = [index.offset_before(timestamp) for timestamp in (0, 9, 10, 29, 30, 31)]
    assert looked_up == [40, 40, 44, 44, 50, 50]


def test_files_are_in_kafkas_format_and_grow_by_appends(path: Path) -> None:
    """B-C3.1, B-C3.2."""
    index = OffsetIndex(path, BASE)
    index.append(44, 100)
    index.save()
    assert path.read_bytes() == pack(">II", 4, 100)
    index.append(50, 300)
    assert not index.is_synced
    index.save()
    index.sync()
    assert index.is_synced
    assert path.read_bytes() == pack(">IIII", 4, 100, 10, 300)
    times = TimeIndex(path.with_name("times"), BASE)
    times.append(1 << 40, 44)
    times.save()
    assert path.with_name("times").read_bytes() == pack(">qI", 1 << 40, 4)
    again = OffsetIndex(path, BASE)
    assert again.load()
    assert again.entries() == index.entries()
    again.append(60, 400)
    again.save()
    assert len(path.read_bytes()) == 24


@pytest.mark.parametrize(
    "data", [b"x" * 7, bytes(16), pack(">IIII", 4, 100, 4, 200), pack(">IIII", 4, 100, 5, 100)]
)
def test_what_cannot_be_an_index_is_not_loaded(path: Path, data: bytes) -> None:
    """B-C3.5."""
    path.write_bytes(data)
    index = OffsetIndex(path, BASE)
    assert not index.load()
    assert len(index) == 0
    index.append(44, 100)
    index.save()
    assert path.read_bytes() == pack(">II", 4, 100)


def test_a_missing_index_is_not_loaded_and_an_empty_one_is(path: Path) -> None:
    index = TimeIndex(path, BASE)
    assert not index.load()
    index.save()
    assert path.read_bytes() == b""
    assert index.load()
    index.delete()
    index.delete()
    assert not path.exists()
