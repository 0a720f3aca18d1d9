"""RateLimiter, with a clock that only sleeping moves."""

from __future__ import annotations

import pyarrow
import pytest

from fastprod.load.rate_limiter import RateLimiter, payload_bytes


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def limited(bytes_per_second: int) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    return RateLimiter(bytes_per_second, lambda: clock.now_s, clock.sleep), clock


def test_without_a_limit_a_batch_goes_whole_and_at_once() -> None:
    limiter, clock = limited(0)
    assert list(limiter.pieces(10, 1000)) == [slice(0, 10)]
    assert clock.now_s == 100.0


def test_rows_go_in_pieces_at_the_rate_that_was_asked_for() -> None:
    limiter, clock = limited(1000)
    rows = [
        row for _ in range(3) for piece in limiter.pieces(100, 2000) for row in range(100)[piece]
    ]
    assert rows == [*range(100)] * 3
    list(limiter.pieces(1, 1))
    assert clock.now_s - 100.0 == pytest.approx(6.0)


def test_a_row_longer_than_a_piece_goes_whole() -> None:
    limiter, clock = limited(10)
    assert list(limiter.pieces(2, 200)) == [slice(0, 1), slice(1, 2)]
    assert clock.now_s - 100.0 == pytest.approx(10.0)


def test_a_pause_earns_no_burst() -> None:
    limiter, clock = limited(1000)
    list(limiter.pieces(10, 1000))
    clock.now_s += 60.0
    began_s = clock.now_s
    list(limiter.pieces(10, 1000))
    list(limiter.pieces(1, 1))
    assert clock.now_s - began_s == pytest.approx(1.0)


def test_tasks_one_after_another_keep_the_rate_each_with_a_limiter_of_its_own() -> None:
    clock = Clock()
    for _ in range(20):
        limiter = RateLimiter(1000, lambda: clock.now_s, clock.sleep)
        list(limiter.pieces(3, 30))
        limiter.wait()
    assert clock.now_s - 100.0 == pytest.approx(0.6)


def test_nothing_is_waited_for_without_a_limit_or_rows() -> None:
    limiter, clock = limited(0)
    list(limiter.pieces(10, 1000))
    limiter.wait()
    limiter, other = limited(1000)
    limiter.wait()
    assert clock.now_s == other.now_s == 100.0


def test_empty_rows_count_too() -> None:
    limiter, clock = limited(10)
    list(limiter.pieces(20, 0))
    list(limiter.pieces(1, 0))
    assert clock.now_s - 100.0 == pytest.approx(2.0)


@pytest.mark.parametrize(
    "kind", [pyarrow.string(), pyarrow.binary(), pyarrow.large_string(), pyarrow.large_binary()]
)
def test_what_arrow_needs_for_each_row_is_no_payload(kind: pyarrow.DataType) -> None:
    cells = pyarrow.array(["abc", None, "", "d", "efgh"], kind)
    assert payload_bytes([cells, cells.slice(3)]) == 8 + 5
    assert payload_bytes([cells.slice(5), pyarrow.nulls(3, kind)]) == 0
