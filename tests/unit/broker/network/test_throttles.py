"""Who is throttled, and until when (B-A6)."""

from __future__ import annotations

import pytest

from fastprod.broker.network.connection import Connection
from fastprod.broker.network.throttles import Throttles
from fastprod.broker.threads.clock import FakeClock, SystemClock


def connection(number: int) -> Connection:
    return Connection(str(number), number, "P", 0, ("127.0.0.1", 1), ("127.0.0.1", number))


def test_throttles_end_in_time_and_in_order() -> None:
    """B-A6.1."""
    clock = FakeClock()
    throttles = Throttles(clock)
    first, second, third = (connection(number) for number in range(3))
    throttles.add(first, 30)
    throttles.add(second, 10)
    throttles.add(third, 10)
    clock.advance(9.999)
    assert throttles.take_ended() == []
    clock.advance(0.001)
    assert throttles.take_ended() == [second, third]
    clock.advance(20)
    assert throttles.take_ended() == [first]
    assert len(throttles) == 0


def test_a_closed_connection_is_forgotten() -> None:
    throttles = Throttles(FakeClock())
    gone = connection(1)
    throttles.add(gone, 1000)
    gone.is_open = False
    assert throttles.take_ended() == []
    assert len(throttles) == 0


def test_the_sleep_lasts_until_the_next_end() -> None:
    throttles = Throttles(SystemClock())
    assert throttles.timeout_ms() == -1
    throttles.add(connection(1), 3_600_000)
    throttles.add(connection(2), 60_000)
    assert throttles.timeout_ms() == pytest.approx(60_000, abs=30_000)


def test_time_that_stands_still_is_not_slept_for() -> None:
    """A clock that leaps tells so; a sleep of real time would find nothing changed."""
    clock = FakeClock()
    throttles = Throttles(clock)
    throttles.add(connection(1), 10)
    assert throttles.timeout_ms() == -1
    clock.advance(10)
    assert throttles.timeout_ms() == 0
