"""What Python sees of `histogram`; the counters themselves are native (see histogram.pxd)."""

from typing import final

@final
class LatencyHistogram:
    """How often something took how long, in buckets a quarter of a power of two wide.

    A copy that never changes; made by the engine. Threads: any. Nothing blocks.
    """

    @property
    def count(self) -> int:
        """How many times are in it."""
    @property
    def largest_ns(self) -> int:
        """The longest time, in ns; 0 if there was none."""
    @property
    def mean_ms(self) -> float:
        """The mean in ms, exact; NaN if it is empty."""
    @property
    def max_ms(self) -> float:
        """The longest time in ms, exact; NaN if it is empty."""
    def percentile_ms(self, fraction: float) -> float:
        """Estimate a percentile, at most 25 % off from 1 us to 275 s, mostly far less.

        Args:
            fraction: 0..1; 0.99 asks for what 99 of 100 times stay within.

        Returns:
            Milliseconds, never above `max_ms`; NaN if it is empty.

        Raises:
            ValueError: `fraction` is out of range.
        """
    def buckets(self) -> list[tuple[float, int]]:
        """Return (upper bound in ms, how many times) of every bucket; the last takes the rest."""
    def since(self, earlier: LatencyHistogram | None, largest_ns: int = 0) -> LatencyHistogram:
        """Return what came after `earlier`, a copy of the same histogram.

        Args:
            earlier: None: everything.
            largest_ns: a longer time that was taken out of the histogram meanwhile.
        """
