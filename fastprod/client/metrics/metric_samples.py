"""MetricSamples: the last few measurements, from which rates, averages and maxima are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastprod.client.metrics.measurement import Measurement, Window
from fastprod.client.system_threads import threads

SHORTEST_PERIOD_MS: Final = 100
"""Samples are not taken more often than this by themselves, however short the window is."""

_NS_PER_MS: Final = 1_000_000
_LONGEST_WAIT_S: Final = 0.001


class MetricSamples:
    """Keeps one measurement from the start of each of the last windows.

    Nothing is recorded into a window: a window is the difference of two measurements.  So sampling
    late makes a window longer, and its rates stay true.

    Args:
        measure: makes a measurement; with True its maxima start anew.
        sample_count: windows kept, the one under way among them (metrics.num.samples).
        window_ms: length of one (metrics.sample.window.ms); 0 counts as 1.
        clock_ns: monotonic ns.

    Threads: any; waits 1 ms at most.
    Source: Java's SampledStat and Rate, contract P-B and K.
    """

    def __init__(
        self,
        measure: Callable[[bool], Measurement],
        sample_count: int,
        window_ms: int,
        clock_ns: Callable[[], int],
    ) -> None:
        self._measure = measure
        self._count = sample_count
        self._window_ns = max(window_ms, 1) * _NS_PER_MS
        self._clock_ns = clock_ns
        self._lock = threads().Lock()
        self._samples: tuple[Measurement, ...] = (measure(True),)

    def roll(self) -> int:
        """Take a sample if one is due; returns ms to the next time this should be called."""
        held = self._lock.acquire(timeout=_LONGEST_WAIT_S)
        try:
            if held:
                self._roll()
        finally:
            if held:
                self._lock.release()
        due_ns = self._samples[-1].at_ns + self._window_ns
        return max(-((self._clock_ns() - due_ns) // _NS_PER_MS), SHORTEST_PERIOD_MS)

    def window(self) -> Window:
        """What happened in the windows that are kept, up to now."""
        # The lock keeps another thread from taking the maxima in between. Somebody whose signal
        # handler runs in the midst of it goes on without, and may miss a maximum.
        held = self._lock.acquire(timeout=_LONGEST_WAIT_S)
        try:
            if held:
                self._roll()
            samples = self._samples
            now = self._measure(False)
        finally:
            if held:
                self._lock.release()
        return Window(samples[0], samples[1:], now, self._elapsed_ns(samples[0], now))

    def _roll(self) -> None:
        if self._clock_ns() - self._samples[-1].at_ns >= self._window_ns:
            self._samples = (*self._samples, self._measure(True))[-self._count :]

    def _elapsed_ns(self, base: Measurement, now: Measurement) -> int:
        """As Kafka: windows that are still to come count as if nothing would happen in them."""
        elapsed_ns = now.at_ns - base.at_ns
        missing = self._count - 1 - elapsed_ns // self._window_ns
        return max(elapsed_ns + max(missing, 0) * self._window_ns, _NS_PER_MS)
