"""Point: one question of the benchmarks, with its contenders and the figures that answer it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from bench.contests.contest import Contest, hold
from bench.fresh_process import Contender
from bench.series import Series, alternate
from bench.servers.server import Server

Figures = Callable[[Mapping[str, Series]], dict[str, float]]

OURS = "fastprod"
CONFLUENT = "confluent-kafka"


@dataclasses.dataclass(frozen=True)
class Point:
    """One table.

    Args:
        name: dotted; the first part is the module below bench.macro, the second the server. Its
            figures begin with it in budget.toml.
        title: what is asked.
        server: a name of bench.run's servers.
        contenders: run in this order in every round.
        figures: numbers from the series, by name.
        rounds: how often each contender runs.
        contest: what becomes of them before the figures are taken, which are then those of its
            final rounds.
    """

    name: str
    title: str
    server: str
    contenders: Sequence[Contender]
    figures: Figures
    rounds: int = 5
    contest: Contest | None = None

    def measured(self, server: Server, say: Callable[[str], None]) -> list[dict[str, Series]]:
        """Its series by label; with a contest, those of all contenders, then the final ones.

        The figures are those of the last.

        Args:
            server: the point's, running.
            say: told what is being done.

        Raises: WrongAnswer, as `alternate`.
        """
        if self.contest is None:
            return [alternate(self.contenders, server, self.rounds, say)]
        return hold(self.contest, self.contenders, server, self.rounds, say)

    def shortened(self, rounds: int, divisor: int) -> Point:
        """The same with fewer rounds and, where records are many, fewer of them."""
        contenders = []
        for each in self.contenders:
            load = each.workload
            step = max(1000, load.bulk_records, load.transaction_records)
            count = max(step, load.record_count // divisor // step * step)
            count = min(count, load.record_count)
            shorter = dataclasses.replace(load, record_count=count)
            contenders.append(dataclasses.replace(each, workload=shorter))
        contest = self.contest
        if contest is not None:
            contest = dataclasses.replace(contest, rounds=min(contest.rounds, rounds))
        rounds = min(self.rounds, rounds)
        return dataclasses.replace(self, contenders=contenders, rounds=rounds, contest=contest)


def against(rival: str) -> Figures:
    """Throughput and CPU of OURS, absolute and as multiples of `rival`'s."""

    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        ours, theirs = series[OURS], series[rival]
        return {
            "rate_ratio": ours.rate_per_s / theirs.rate_per_s,
            "cpu_ratio": ours.cpu_us / theirs.cpu_us,
            "cpu_us": ours.cpu_us,
        }

    return figures
