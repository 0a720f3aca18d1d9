"""Kafka's windowed rate: sums of the last few windows, over the time that these cover."""

from __future__ import annotations

_NS_PER_S = 1_000_000_000


class _Sample:
    __slots__ = ("events", "start_ns", "total")

    def __init__(self, start_ns: int) -> None:
        self.reset(start_ns)

    def reset(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.total = 0.0
        self.events = 0


class SampledStat:
    """Values recorded over time, forgotten window by window.  The caller has a lock.

    A rate is never computed over less than all windows but one, however new the stat is: the
    first second of a quota of N a second with W windows lets N * (W - 1) pass.  Source: Java
    classes Rate and SampledStat; `quota.window.num`, `quota.window.size.seconds` (contract B-A1).

    Args:
        window_count: windows that count, >= 1.
        window_ns: length of one.
    """

    __slots__ = ("_current", "_samples", "_window_count", "_window_ns")

    def __init__(self, window_count: int, window_ns: int) -> None:
        self._window_count = window_count
        self._window_ns = window_ns
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ns: int) -> None:
        """Add `value` to the window of `now_ns`; a negative one takes an earlier one back."""
        sample = self._sample_at(now_ns)
        sample.total += value
        sample.events += 1

    def _sample_at(self, now_ns: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ns))
        sample = self._samples[self._current]
        if now_ns - sample.start_ns < self._window_ns:
            return sample
        self._current = (self._current + 1) % self._window_count
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ns))
        else:
            self._samples[self._current].reset(now_ns)
        return self._samples[self._current]

    def _forget_before(self, now_ns: int) -> None:
        for sample in self._samples:
            if now_ns - sample.start_ns >= self._window_count * self._window_ns:
                sample.reset(now_ns)

    def covered_ns(self, now_ns: int) -> int:
        """The time that `rate` divides by."""
        self._forget_before(now_ns)
        oldest_ns = min((sample.start_ns for sample in self._samples), default=now_ns)
        elapsed_ns = now_ns - oldest_ns
        missing = max(0, self._window_count - 1 - elapsed_ns // self._window_ns)
        return elapsed_ns + missing * self._window_ns or self._window_ns

    def rate(self, now_ns: int) -> float:
        """What was recorded, per second."""
        covered_ns = self.covered_ns(now_ns)
        return sum(sample.total for sample in self._samples) * _NS_PER_S / covered_ns

    def average(self, now_ns: int) -> float:
        """What was recorded, per record; 0 without any."""
        self._forget_before(now_ns)
        events = sum(sample.events for sample in self._samples)
        return sum(sample.total for sample in self._samples) / events if events else 0.0
