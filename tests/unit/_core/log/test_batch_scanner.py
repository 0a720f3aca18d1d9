"""Steps over the batches of a log (contract B-C3.6, B-C5, B-D3)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod._core.log import batch_scanner
from fastprod._core.log.batch_validator import stamp
from fastprod.errors import CorruptRecordError
from support.broker.log_batches import CODECS, TIME, batch, encoded

LIMIT = 1 << 20


def numbered(*made: bytearray) -> list[bytes]:
    """Batches as a log holds them, of three records each."""
    done = []
    for i, data in enumerate(made):
        stamp(data, 3 * i, 0, int.from_bytes(data[35:43], "big", signed=True))
        done.append(bytes(data))
    return done


def test_the_batch_that_holds_an_offset_is_found_from_any_start() -> None:
    parts = numbered(batch(3), batch(3, value=b"longer"), batch(3))
    log = b"".join(parts)
    starts = [0, len(parts[0]), len(parts[0] + parts[1])]
    for offset in range(9):
        assert batch_scanner.find_offset(log, 0, len(log), offset) == (starts[offset // 3], True)
    assert batch_scanner.find_offset(log, 0, len(log), 9) == (len(log), False)
    assert batch_scanner.find_offset(log, starts[1], len(log), 1) == (starts[1], True)


def test_a_step_past_the_end_says_where_to_go_on() -> None:
    (data,) = numbered(batch(3, value=b"x" * 500))
    assert batch_scanner.find_offset(data[:100], 0, 100, 3) == (len(data), False)
    assert batch_scanner.find_offset(data[:100], 0, 100, 2) == (0, True)
    assert batch_scanner.find_offset(data[:60], 0, 60, 2) == (0, False)


def test_only_whole_batches_below_a_bound_are_counted() -> None:
    """B-C5.3, B-C5.4."""
    parts = numbered(batch(3), batch(3), batch(3))
    log = b"".join(parts)
    ends = [0, len(parts[0]), 2 * len(parts[0]), len(log)]
    assert [batch_scanner.whole_batches(log, 0, len(log), 3 * i) for i in range(4)] == ends
    assert batch_scanner.whole_batches(log, 0, len(log), 8) == ends[2]
    assert batch_scanner.whole_batches(log, 0, ends[2] + 70, 99) == ends[2]
    assert batch_scanner.whole_batches(log, ends[1], len(log), 99) == ends[3]
    assert batch_scanner.whole_batches(log, ends[3], len(log), 99) == ends[3]


def test_a_batch_tells_its_size_from_its_header() -> None:
    data = bytes(batch(3))
    assert batch_scanner.batch_size(data[:61], 0) == len(data)
    assert batch_scanner.batch_size(data[:60], 0) is None
    assert batch_scanner.batch_size(data, len(data)) is None
    assert batch_scanner.batch_size(bytes(61), 0) is None


@pytest.mark.parametrize("codec", CODECS)
def test_a_timestamp_is_found_inside_a_batch(codec: str) -> None:
    """B-D3: record granularity, compressed or not."""
    first: list[Any] = [(TIME + ms, None, b"v") for ms in (0, 10, 5)]
    second: list[Any] = [(TIME + ms, None, b"v") for ms in (2, 30, 20)]
    log = b"".join(numbered(encoded(first, codec), encoded(second, codec)))

    def find(ms: int, start: int = 0) -> tuple[int, int] | None:
        return batch_scanner.find_timestamp(log, 0, len(log), TIME + ms, start, LIMIT)

    assert find(-5) == (0, TIME)
    assert find(1) == (1, TIME + 10)
    assert find(1, 2) == (2, TIME + 5)
    assert find(6, 2) == (4, TIME + 30)
    assert find(11) == (4, TIME + 30)
    assert find(30) == (4, TIME + 30)
    assert find(31) is None
    assert batch_scanner.find_largest_timestamp(log, 0, len(log), 0, LIMIT) == (4, TIME + 30)
    assert batch_scanner.find_largest_timestamp(log, 0, len(log), 5, LIMIT) == (5, TIME + 20)
    assert batch_scanner.find_largest_timestamp(log, 0, len(log), 6, LIMIT) is None


def test_a_damaged_batch_is_told_with_its_offset() -> None:
    (data,) = numbered(batch(3))
    broken = bytearray(data)
    broken[80] ^= 1
    with pytest.raises(CorruptRecordError, match=r"base offset 0 .*CRC"):
        batch_scanner.find_timestamp(broken, 0, len(broken), TIME, 0, LIMIT)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 100_000])
def test_copies_are_equal_and_apart(size: int) -> None:
    data = bytearray(b"a" * size)
    copy = batch_scanner.copy_batch(data)
    chunk = bytearray(size + 2)
    batch_scanner.copy_into(data, chunk, 1)
    data[:] = b"b" * size
    assert copy == b"a" * size
    assert chunk == b"\0" + copy + b"\0"


def test_a_copy_that_does_not_fit_is_refused() -> None:
    for at in (-1, 1, 99):
        with pytest.raises(ValueError, match=f"4 bytes do not fit at {at} of 4"):
            batch_scanner.copy_into(b"abcd", bytearray(4), at)
    with pytest.raises(BufferError):
        batch_scanner.copy_into(b"abcd", bytes(4), 0)
