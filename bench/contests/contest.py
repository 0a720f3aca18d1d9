"""Contest: one contender beside the best of many, without the luck of the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from bench.fresh_process import Contender
from bench.series import Number, Series, alternate, p99_us, rate_per_s, take_turns
from bench.servers.server import Server


@dataclasses.dataclass(frozen=True)
class Measure:
    """By what contenders are compared.

    Args:
        name: in names of figures.
        title: with its unit.
        number: of a run.
        is_cost: less is better.
    """

    name: str
    title: str
    number: Number
    is_cost: bool


P99: Final = Measure("p99", "p99 of a record, us", p99_us, is_cost=True)
RATE: Final = Measure("rate", "delivered records/s", rate_per_s, is_cost=False)


@dataclasses.dataclass(frozen=True)
class Contest:
    """How the contenders of a point are narrowed down to those that its figures are of.

    Whoever is the best of many in noisy rounds is so partly by luck, and beside it everybody looks
    worse than they are. So the best are chosen by one set of rounds, and judged by another.

    Args:
        judged: label of the contender that the others are beside. It runs in every round.
        measure: what decides who is best, by its median.
        hopeless: who is so many times worse than the best is left out of the rounds that follow.
        finalists: how many of the others run once more, beside the judged one.
        rounds: of those runs.
    """

    judged: str
    measure: Measure
    hopeless: float = 2.0
    finalists: int = 2
    rounds: int = 7

    def hopeful(self, series: Mapping[str, Series]) -> Collection[str]:
        """Labels of those that go on."""
        most = self.hopeless * min(map(self._cost, series.values()))
        return {
            label
            for label, each in series.items()
            if label == self.judged or self._cost(each) <= most
        }

    def best(self, series: Mapping[str, Series]) -> list[str]:
        """Labels of the finalists, the best first."""
        others = [label for label in series if label != self.judged]
        return sorted(others, key=lambda label: self._cost(series[label]))[: self.finalists]

    def rival(self, finals: Mapping[str, Series], measure: Measure) -> tuple[str, float]:
        """The finalist beside whom the judged one does worst: its label, and the judged one's
        number in parts of its own."""
        ratios = {
            label: finals[self.judged].ratio_to(each, measure.number)
            for label, each in finals.items()
            if label != self.judged
        }
        worst = max if measure.is_cost else min
        label = worst(ratios, key=lambda each: ratios[each])
        return label, ratios[label]

    def _cost(self, series: Series) -> float:
        value = series.median(self.measure.number)
        return value if self.measure.is_cost else 1 / value


def hold(
    contest: Contest,
    contenders: Sequence[Contender],
    server: Server,
    rounds: int,
    say: Callable[[str], None],
) -> list[dict[str, Series]]:
    """The series of all contenders, then those of the final rounds.

    Raises: WrongAnswer, as `alternate`.
    """
    everybody = alternate(contenders, server, rounds, say, contest.hopeful)
    chosen = {contest.judged, *contest.best(everybody)}
    finalists = [each for each in contenders if each.label in chosen]
    return [everybody, take_turns(finalists, server, contest.rounds, say)]
