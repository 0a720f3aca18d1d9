"""SampledStat: Kafka's windowed rate (B-A1 quota.window.num, quota.window.size.seconds)."""

from __future__ import annotations

import pytest

from fastprod.broker.network.windowed_rate import SampledStat

S = 1_000_000_000


def test_a_new_rate_is_over_all_windows_but_one() -> None:
    stat = SampledStat(11, S)
    assert stat.rate(0) == 0
    stat.record(50, 0)
    assert stat.rate(0) == 5
    assert stat.rate(S // 2) == pytest.approx(50 / 10.5)


def test_a_single_window_is_never_over_no_time() -> None:
    stat = SampledStat(1, S)
    stat.record(3, 7)
    assert stat.rate(7) == 3


def test_a_window_is_forgotten_when_all_have_passed() -> None:
    stat = SampledStat(2, S)
    stat.record(10, 0)
    stat.record(4, S)
    assert stat.rate(2 * S - 1) == pytest.approx(7)
    assert stat.rate(2 * S) == 4
    assert stat.rate(3 * S) == 0


def test_a_steady_flow_has_its_rate_at_every_moment() -> None:
    stat = SampledStat(3, S)
    for tick in range(1, 1000):
        stat.record(1, tick * S // 100)
        if tick > 300:
            assert stat.rate(tick * S // 100) == pytest.approx(100, rel=0.01)


def test_a_record_taken_back_leaves_no_rate() -> None:
    stat = SampledStat(2, S)
    stat.record(1, 0)
    stat.record(-1, 5)
    assert stat.rate(5) == 0


def test_the_average_is_of_what_the_windows_hold() -> None:
    stat = SampledStat(2, S)
    assert stat.average(0) == 0
    stat.record(10, 0)
    stat.record(30, 0)
    stat.record(80, S)
    assert stat.average(S) == 40
    assert stat.average(2 * S) == 80
    assert stat.average(5 * S) == 0
