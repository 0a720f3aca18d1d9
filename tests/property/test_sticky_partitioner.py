"""The built-in partitioner against a model of contract P-C.5 that walks lists."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastprod._core.testing.engine_doors import StickyPartitionerForTest
from support.processes.scale import examples

LEADERS = st.lists(st.booleans(), max_size=12)
NUMBERS = st.integers(0, 2**62)


class PartitionerMachine(RuleBasedStateMachine):
    @initialize(limit=st.integers(1, 1000), leaders=LEADERS)
    def make(self, limit: int, leaders: list[bool]) -> None:
        self.limit = limit
        self.leaders = leaders
        self.weights: dict[int, int] = {}
        self.produced_bytes = 0
        self.current = -1
        self.capacity = len(leaders)
        self.sticky = StickyPartitionerForTest(limit, leaders)

    def choice(self, number: int) -> int:
        if not self.leaders:
            return -1
        if self.weights:
            urn = [p for p, weight in self.weights.items() for _ in range(weight)]
            return urn[number % len(urn)]
        led = [p for p, has_leader in enumerate(self.leaders) if has_leader]
        return led[number % len(led)] if led else number % len(self.leaders)

    @rule(leaders=LEADERS)
    def new_metadata(self, leaders: list[bool]) -> None:
        self.leaders = leaders
        self.weights = {}
        self.capacity = max(self.capacity, len(leaders))
        self.sticky.set_partitions(leaders)
        if self.current >= len(leaders):
            self.current = -1  # the topic was made anew with fewer partitions

    @rule(
        queues=st.dictionaries(st.integers(0, 11), st.integers(0, 9) | st.just(3), max_size=12),
        nothing_excluded=st.booleans(),
    )
    def new_load(self, queues: dict[int, int], nothing_excluded: bool) -> None:
        self.sticky.set_load(queues, nothing_excluded)
        lengths = list(queues.values())
        uniform = nothing_excluded and (len(lengths) < 2 or len(set(lengths)) == 1)
        if not lengths or uniform or len(lengths) > self.capacity:
            self.weights = {}
        else:
            self.weights = {
                p: max(lengths) + 1 - length if p < len(self.leaders) else 0
                for p, length in queues.items()
            }
            if not any(self.weights.values()):
                self.weights = {}

    @rule(number=NUMBERS)
    def look(self, number: int) -> None:
        self.sticky.script(number)
        if self.current < 0:
            self.current = self.choice(number)
            self.produced_bytes = 0
        assert self.sticky.current() == self.current

    @precondition(lambda self: self.current >= 0)
    @rule(number=NUMBERS, size=st.integers(0, 2500), may_switch=st.booleans())
    def produce(self, number: int, size: int, may_switch: bool) -> None:
        self.sticky.script(number)
        self.sticky.produced(size, may_switch)
        self.produced_bytes += size
        full = self.produced_bytes >= self.limit
        if full and (may_switch or self.produced_bytes >= 2 * self.limit):
            self.produced_bytes = 0
            self.current = self.choice(number)
            assert self.sticky.scripted is None or not self.leaders
        else:
            assert self.sticky.scripted == number

    @invariant()
    def the_table_is_cumulative(self) -> None:
        assert self.sticky.cumulative() == list(itertools.accumulate(self.weights.values()))
        assert self.sticky.produced_bytes == self.produced_bytes


PartitionerMachine.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=30)
test_the_partitioner_does_what_the_model_does = PartitionerMachine.TestCase
