"""Series: the runs of one contender, and its medians."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence

from bench.fresh_process import Contender, Run, run
from bench.servers.server import Server

_REPEATS = 1
_WARM_UPS = 6
_STILL_RISING = 1.05

Number = Callable[[Run], float]
"""What is taken of a run."""


def rate_per_s(run: Run) -> float:
    """Delivered records a second."""
    return run.outcome.record_count / run.outcome.wall_s


def p99_us(run: Run) -> float:
    """The latency that 1 % of the records exceed."""
    return _quantile(run.outcome.latencies_us, 0.99)


@dataclasses.dataclass(frozen=True)
class Series:
    """All runs of one contender at one point, in the order in which they were made."""

    contender: Contender
    runs: list[Run]

    @property
    def rate_per_s(self) -> float:
        """Delivered records a second, median."""
        return statistics.median(self.rates_per_s)

    @property
    def rates_per_s(self) -> list[float]:
        return [rate_per_s(each) for each in self.runs]

    @property
    def mb_per_s(self) -> float:
        """Delivered bytes of values, in 10**6 a second, median."""
        return statistics.median(r.outcome.value_bytes / r.outcome.wall_s / 1e6 for r in self.runs)

    @property
    def cpu_us(self) -> float:
        """CPU time of the client's process a record, in us, median."""
        return statistics.median(r.outcome.cpu_s / r.outcome.record_count * 1e6 for r in self.runs)

    @property
    def peak_mb(self) -> float:
        """Largest resident memory of all runs, in 10**6 bytes."""
        return max(r.outcome.peak_bytes for r in self.runs) / 1e6

    @property
    def baseline_mb(self) -> float:
        """Resident memory before the client was made, in 10**6 bytes, median."""
        return statistics.median(r.outcome.baseline_bytes for r in self.runs) / 1e6

    @property
    def cpu_percent(self) -> float:
        """CPU time of the client's process, in 1/100 of a core, median."""
        return statistics.median(100 * r.outcome.cpu_s / r.outcome.wall_s for r in self.runs)

    @property
    def wake_ups_per_s(self) -> float:
        """Of all threads of the client's process, median."""
        return statistics.median(r.outcome.wake_up_count / r.outcome.wall_s for r in self.runs)

    @property
    def thread_count(self) -> int:
        """Most threads that the client's process had at the end of a run."""
        return max(r.outcome.thread_count for r in self.runs)

    def latency_us(self, share: float) -> float:
        """Median over the runs of one quantile of the latency of a record, in us.

        Args:
            share: 0.5 is the median, 0.99 the latency that 1 % exceed.
        """
        return statistics.median(_quantile(r.outcome.latencies_us, share) for r in self.runs)

    def median(self, number: Number) -> float:
        """Of all runs."""
        return statistics.median(map(number, self.runs))

    def ratio_to(self, other: Series, number: Number) -> float:
        """Median over the rounds of a number in parts of the other's in the same round."""
        pairs = zip(self.runs, other.runs, strict=True)
        return statistics.median(number(ours) / number(theirs) for ours, theirs in pairs)

    @property
    def has_latencies(self) -> bool:
        return bool(self.runs[0].outcome.latencies_us)

    @property
    def foreign_share(self) -> float:
        """Largest share of the machine that others used in any run."""
        return max(r.foreign_share for r in self.runs)

    @property
    def disturbed_count(self) -> int:
        return sum(r.is_disturbed for r in self.runs)


def alternate(
    contenders: Sequence[Contender],
    server: Server,
    rounds: int,
    say: Callable[[str], None],
    going_on: Callable[[Mapping[str, Series]], Collection[str]] | None = None,
) -> dict[str, Series]:
    """Run each contender once a round, so that slow and quick hours meet all of them.

    Every second round goes backwards: Apache Kafka is up to twice as fast for whoever comes after
    a slow client, and in one order that would always be the same contender.

    A run that others disturbed is made again, once; the less disturbed one counts.

    A server that compiles while it runs gets runs that do not count until it gets no faster.

    Args:
        contenders: in the order of the first round.
        server: of all runs.
        rounds: at least 1.
        say: told what is being done.
        going_on: after each round, labels of those that run in the next ones; None: all of them.

    Returns: a series by each contender's label.
    Raises: WrongAnswer, from `run`.
    """
    if server.gets_faster:
        _warm_up(contenders[0], server, say)
    return take_turns(contenders, server, rounds, say, going_on)


def take_turns(
    contenders: Sequence[Contender],
    server: Server,
    rounds: int,
    say: Callable[[str], None],
    going_on: Callable[[Mapping[str, Series]], Collection[str]] | None = None,
) -> dict[str, Series]:
    """`alternate` on a server that is as fast as it gets."""
    found = {each.label: Series(each, []) for each in contenders}
    for number in range(1, rounds + 1):
        for contender in contenders if number % 2 else reversed(contenders):
            say(f"round {number} of {rounds}: {contender.label}")
            found[contender.label].runs.append(_least_disturbed(contender, server, say))
        if going_on is not None:
            labels = going_on(found)
            contenders = [each for each in contenders if each.label in labels]
    return found


def _warm_up(contender: Contender, server: Server, say: Callable[[str], None]) -> None:
    """Run it until its rate rises by less than a twentieth, at most `_WARM_UPS` times."""
    best_per_s = 0.0
    for number in range(1, _WARM_UPS + 1):
        say(f"warming up, {number}: {contender.label}")
        outcome = run(contender, server).outcome
        rate_per_s = outcome.record_count / outcome.wall_s
        if rate_per_s < best_per_s * _STILL_RISING:
            return
        best_per_s = rate_per_s


def _least_disturbed(contender: Contender, server: Server, say: Callable[[str], None]) -> Run:
    best = run(contender, server)
    for _ in range(_REPEATS):
        if not best.is_disturbed:
            break
        say(f"{contender.label} again: others used {best.foreign_share:.0%} of the machine")
        again = run(contender, server)
        best = min(best, again, key=lambda each: each.foreign_share)
    return best


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
