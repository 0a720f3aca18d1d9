"""When samples are taken, and which window they make: contract P-K, metrics.num.samples and
metrics.sample.window.ms (P-B); Java's SampledStat and Rate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastprod.client.metrics.measurement import Measurement, Window
from fastprod.client.metrics.metric_samples import SHORTEST_PERIOD_MS, MetricSamples

WINDOW_MS = 30_000


class World:
    """A clock, a counter that the test raises, and a maximum."""

    def __init__(self, sample_count: int = 2, window_ms: int = WINDOW_MS) -> None:
        self.now_ms = 0.0
        self.count = 0
        self.largest = 0
        self.on_measure: Callable[[], None] = lambda: None
        self.samples = MetricSamples(
            self.measure, sample_count, window_ms, lambda: int(self.now_ms * 1e6)
        )

    def measure(self, reset: bool) -> Measurement:
        found = Measurement(
            int(self.now_ms * 1e6), {"count": self.count}, {"largest": self.largest}, {}, {}, {}
        )
        if reset:
            self.largest = 0
        self.on_measure()
        return found

    def at(self, now_ms: float, count: int = 0, largest: int = 0) -> Window:
        """Time goes on, then so much happens, then somebody looks."""
        self.now_ms = now_ms
        self.samples.roll()
        self.count += count
        self.largest = max(self.largest, largest)
        return self.samples.window()


def rate(window: Window) -> float:
    return window.rate(window.delta("count"))


def test_windows_still_to_come_count_as_empty() -> None:
    """Java's Rate.windowSize: a rate does not jump at the start."""
    assert rate(World().at(10_000, count=400)) == 400 / 40


def test_a_full_number_of_windows_is_taken_as_it_is() -> None:
    world = World()
    world.at(29_999, count=300)
    assert rate(world.at(30_000)) == 300 / 30
    assert rate(world.at(45_000, count=300)) == 600 / 45


def test_a_window_that_is_over_falls_out_after_the_number_of_samples() -> None:
    world = World()
    world.at(1_000, count=700)
    assert world.at(30_000, count=70).delta("count") == 770
    assert world.at(59_999).delta("count") == 770
    assert world.at(60_000, count=7).delta("count") == 77
    assert world.at(90_000).delta("count") == 7
    assert world.at(120_000).delta("count") == 0


@pytest.mark.parametrize("sample_count", [1, 2, 3, 5])
def test_as_many_windows_are_kept_as_told(sample_count: int) -> None:
    """The one under way is among them."""
    world = World(sample_count)
    for number in range(10):
        found = world.at(number * WINDOW_MS, count=10**number)
    kept = range(10 - sample_count, 10)
    assert found.delta("count") == sum(10**number for number in kept)


def test_one_sample_alone_begins_anew_at_every_window() -> None:
    world = World(sample_count=1)
    assert rate(world.at(20_000, count=100)) == 100 / 20
    assert rate(world.at(30_000)) == 0
    assert rate(world.at(31_000, count=5)) == 5


def test_a_sample_taken_late_keeps_the_rate_true() -> None:
    """Nobody rolled for five minutes: what happened is spread over the time it took."""
    world = World()
    world.count = 3_000
    assert rate(world.at(300_000)) == 3_000 / 300


def test_a_maximum_lasts_as_long_as_its_window() -> None:
    world = World()
    assert world.at(1_000, largest=50).largest("largest") == 50
    assert world.at(30_000, largest=7).largest("largest") == 50
    assert world.at(59_000).largest("largest") == 50
    assert world.at(60_000, largest=3).largest("largest") == 7
    assert world.at(90_000).largest("largest") == 3
    assert world.at(120_000).largest("largest") == 0


def test_looking_takes_the_sample_that_is_due() -> None:
    """The control thread may be late; metrics() does not wait for it."""
    world = World(sample_count=1)
    world.count = 5
    world.now_ms = 30_000
    assert world.samples.window().delta("count") == 0


def test_looking_twice_changes_nothing() -> None:
    world = World()
    first = world.at(1_000, count=3, largest=9)
    second = world.samples.window()
    assert (first.delta("count"), first.largest("largest")) == (3, 9)
    assert (second.delta("count"), second.largest("largest")) == (3, 9)


def test_rolling_tells_when_the_next_sample_is_due() -> None:
    world = World()
    assert world.samples.roll() == WINDOW_MS
    world.now_ms = 12_345
    assert world.samples.roll() == WINDOW_MS - 12_345
    world.now_ms = 30_000.5
    assert world.samples.roll() == WINDOW_MS


def test_a_short_window_does_not_keep_the_control_thread_busy() -> None:
    """B: metrics.sample.window.ms may be 0."""
    world = World(window_ms=0)
    assert world.samples.roll() == SHORTEST_PERIOD_MS
    assert rate(world.at(1)) == 0


def test_a_rate_right_after_the_start_is_finite() -> None:
    assert rate(World(sample_count=1).at(0, count=5)) == 5_000


def test_a_look_from_within_a_look_gets_its_answer() -> None:
    """A signal handler may call metrics() while the same thread is in it: nothing waits forever."""
    world = World()
    inner: list[Window] = []

    def look_again() -> None:
        world.on_measure = lambda: None
        inner.append(world.samples.window())

    world.on_measure = look_again
    outer = world.at(1_000, count=4)
    assert [window.delta("count") for window in inner] == [4]
    assert outer.delta("count") == 4
