"""Point: one question of the benchmarks, with its contenders and the figures that answer it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from bench.fresh_process import Contender
from bench.series import Series

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
    """

    name: str
    title: str
    server: str
    contenders: Sequence[Contender]
    figures: Figures
    rounds: int = 5

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
        return dataclasses.replace(self, contenders=contenders, rounds=min(self.rounds, rounds))


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
