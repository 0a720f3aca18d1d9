"""The built-in sticky and adaptive partitioner (contract P-C.5, KIP-480, KIP-794).

P-L.60-62 and P-L.78-80 as far as the partitioner alone can show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from fastprod._core.testing.engine_doors import StickyPartitionerForTest as StickyPartitioner


def choose(sticky: StickyPartitioner, number: int) -> int:
    """Switch with this random number."""
    sticky.script(number)
    sticky.produced(1 << 40)
    assert sticky.scripted is None
    return sticky.current()


def frequencies(sticky: StickyPartitioner, picks: Sequence[int]) -> dict[int, int]:
    return dict(sorted(Counter(choose(sticky, number) for number in picks).items()))


def test_nothing_is_chosen_before_it_is_needed() -> None:
    """P-C.5.1."""
    sticky = StickyPartitioner(100, [True] * 4)
    sticky.script(2)
    assert sticky.scripted == 2
    assert sticky.current() == 2
    assert sticky.scripted is None
    assert sticky.current() == 2


def test_without_partitions_there_is_no_choice() -> None:
    sticky = StickyPartitioner(100, [])
    assert sticky.current() == -1
    sticky.set_partitions([True, True])
    sticky.script(1)
    assert sticky.current() == 1


def test_the_partition_stays_until_its_bytes_reach_the_limit() -> None:
    """P-L.78, P-C.5.2: 3 bytes of 3."""
    sticky = StickyPartitioner(3, [True] * 3)
    sticky.script(0)
    assert sticky.current() == 0
    sticky.script(1)
    sticky.produced(1)
    sticky.produced(1)
    assert (sticky.current(), sticky.scripted, sticky.produced_bytes) == (0, 1, 2)
    sticky.produced(1)
    assert (sticky.current(), sticky.scripted, sticky.produced_bytes) == (1, None, 0)


def test_a_single_partition_is_chosen_again_and_again() -> None:
    """P-L.78."""
    sticky = StickyPartitioner(3, [True])
    for number in range(20):
        assert choose(sticky, number) == 0


def test_the_same_partition_may_be_chosen_twice_in_a_row() -> None:
    """P-C.5.5, P-L.60: the sequence 0, 0, 1, 2, 0 with one random number a switch."""
    sticky = StickyPartitioner(100, [True] * 3)
    assert [choose(sticky, number) for number in (0, 0, 1, 2, 0)] == [0, 0, 1, 2, 0]


def test_no_switch_inside_a_batch_before_twice_the_limit() -> None:
    """P-C.5.2, P-C.5.3: a batch that is not full holds the partition, but not for ever."""
    sticky = StickyPartitioner(100, [True] * 2)
    sticky.script(0)
    sticky.current()
    sticky.script(1)
    for _ in range(19):
        sticky.produced(10, may_switch=False)
    assert (sticky.current(), sticky.produced_bytes) == (0, 190)
    sticky.produced(9, may_switch=False)
    assert sticky.current() == 0
    sticky.produced(1, may_switch=False)
    assert (sticky.current(), sticky.produced_bytes) == (1, 0)


def test_a_deferred_switch_needs_no_more_bytes() -> None:
    """P-C.5.4: the queue ran empty meanwhile."""
    sticky = StickyPartitioner(100, [True] * 2)
    sticky.script(0)
    sticky.current()
    sticky.script(1)
    sticky.produced(150, may_switch=False)
    assert sticky.current() == 0
    sticky.produced(0, may_switch=True)
    assert sticky.current() == 1


def test_a_switch_allowed_too_early_is_not_made() -> None:
    sticky = StickyPartitioner(100, [True] * 2)
    sticky.script(0)
    sticky.current()
    sticky.script(1)
    sticky.produced(99, may_switch=True)
    sticky.produced(0, may_switch=True)
    assert (sticky.current(), sticky.scripted) == (0, 1)


@pytest.mark.parametrize("limit_bytes", [0, -5])
def test_the_limit_is_at_least_one_byte(limit_bytes: int) -> None:
    """P-C.5.1."""
    sticky = StickyPartitioner(limit_bytes, [True] * 2)
    sticky.script(0)
    sticky.current()
    sticky.script(1)
    sticky.produced(0, may_switch=True)
    assert sticky.current() == 0
    sticky.produced(1, may_switch=True)
    assert sticky.current() == 1


def test_lingering_batches_are_never_small() -> None:
    """P-L.62, P-C.5.3: batches drained at 2/3 of the limit, switches only between them."""
    limit = 900
    sticky = StickyPartitioner(limit, [True] * 3)
    drained: list[int] = []
    filled = 0
    partition = sticky.current()
    for number in range(3000):
        sticky.script(number)
        sticky.produced(0, may_switch=filled == 0)
        assert filled == 0 or sticky.current() == partition
        partition = sticky.current()
        filled += 10
        sticky.produced(10, may_switch=filled >= limit)
        if filled == 600 or sticky.current() != partition:
            drained.append(filled)
            filled = 0
        partition = sticky.current()
    assert len(drained) == 50
    assert all(limit // 2 < size < limit for size in drained)


def test_partitions_without_a_leader_are_not_chosen() -> None:
    """P-L.79, P-C.5.5."""
    sticky = StickyPartitioner(100, [True, False, True, False])
    assert frequencies(sticky, range(100)) == {0: 50, 2: 50}


def test_without_any_leader_every_partition_may_be_chosen() -> None:
    """P-L.79, P-C.5.5."""
    sticky = StickyPartitioner(100, [False] * 4)
    assert frequencies(sticky, range(100)) == {0: 25, 1: 25, 2: 25, 3: 25}


def test_new_metadata_matters_at_the_next_switch() -> None:
    sticky = StickyPartitioner(100, [True, True])
    assert choose(sticky, 1) == 1
    sticky.set_partitions([True, False, True])
    assert sticky.current() == 1
    assert frequencies(sticky, range(10)) == {0: 5, 2: 5}
    sticky.set_partitions([True] * 40)
    assert frequencies(sticky, range(40)) == {partition: 1 for partition in range(40)}


@pytest.mark.parametrize(
    ("queues", "cumulative"),
    [
        ([5, 0, 3, 0, 1], [1, 7, 10, 16, 21]),  # weights 1, 6, 3, 6, 5
        ([0, 3, 1], [4, 5, 8]),
        ([1, 7, 2], [7, 8, 14]),
        ([0, 1], [2, 3]),
    ],
)
def test_weights_are_what_a_queue_lacks_of_the_longest(
    queues: list[int], cumulative: list[int]
) -> None:
    """P-L.80, P-C.5.6."""
    sticky = StickyPartitioner(100, [True] * len(queues))
    sticky.set_load(dict(enumerate(queues)))
    assert sticky.cumulative() == cumulative
    weights = [max(queues) + 1 - queue for queue in queues]
    assert frequencies(sticky, range(cumulative[-1])) == dict(enumerate(weights))


def test_the_choice_is_the_first_whose_cumulative_weight_exceeds_the_number() -> None:
    """P-C.5.6."""
    sticky = StickyPartitioner(100, [True] * 3)
    sticky.set_load({0: 0, 1: 3, 2: 1})
    assert [choose(sticky, number) for number in (0, 3, 4, 5, 7, 8, 12, 13)] == [
        *(0, 0, 1, 2, 2),
        *(0, 1, 2),
    ]


def test_slow_brokers_partitions_are_left_out() -> None:
    """P-L.61, P-C.5.7: only those in the table, also if their queues are equally long."""
    sticky = StickyPartitioner(100, [True] * 4)
    sticky.set_load({1: 2, 3: 2}, nothing_excluded=False)
    assert frequencies(sticky, range(100)) == {1: 50, 3: 50}
    sticky.set_load({3: 9}, nothing_excluded=False)
    assert frequencies(sticky, range(10)) == {3: 10}


@pytest.mark.parametrize(
    ("queues", "nothing_excluded"),
    [({0: 4, 1: 4, 2: 4, 3: 4}, True), ({2: 5}, True), ({}, True), ({}, False)],
    ids=["all equal", "one entry", "no entry", "all excluded"],
)
def test_useless_load_means_a_uniform_choice(
    queues: dict[int, int], nothing_excluded: bool
) -> None:
    """P-C.5.6."""
    sticky = StickyPartitioner(100, [True] * 4)
    sticky.set_load({0: 9, 1: 0})
    sticky.set_load(queues, nothing_excluded)
    assert sticky.cumulative() == []
    assert frequencies(sticky, range(8)) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_load_of_partitions_that_are_not_known_yet_is_not_used() -> None:
    sticky = StickyPartitioner(100, [True] * 2)
    sticky.set_load({0: 0, 1: 5, 2: 5})
    assert sticky.cumulative() == []
    assert frequencies(sticky, range(4)) == {0: 2, 1: 2}


def test_new_metadata_makes_old_load_void() -> None:
    sticky = StickyPartitioner(100, [True] * 3)
    sticky.set_load({0: 0, 1: 9, 2: 9})
    sticky.set_partitions([False, True, True])
    assert frequencies(sticky, range(10)) == {1: 5, 2: 5}


def test_over_many_picks_the_slow_broker_gets_less() -> None:
    """P-C.5.9: the producer's own random numbers; frequency follows weight 7, 1, 6."""
    sticky = StickyPartitioner(1, [True] * 3, seed=20261120)
    sticky.set_load({0: 1, 1: 7, 2: 2})
    picks: Counter[int] = Counter()
    for _ in range(14_000):
        sticky.produced(1)
        picks[sticky.current()] += 1
    assert abs(picks[0] - 7000) < 300
    assert abs(picks[1] - 1000) < 150
    assert abs(picks[2] - 6000) < 300


def test_first_choices_of_many_topics_spread_over_the_partitions() -> None:
    """Seeds as the accumulator makes them: one multiplication and addition apart."""
    seed, picks = 1, Counter[int]()
    for _ in range(10_000):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        picks[StickyPartitioner(100, [True] * 10, seed).current()] += 1
    assert all(850 < picks[partition] < 1150 for partition in range(10))
