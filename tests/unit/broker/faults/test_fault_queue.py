"""The order in which planned faults meet requests (B-G2, B-F2)."""

from __future__ import annotations

import pytest

from fastprod.broker.faults.fault_queue import FaultQueue, PlannedFault
from fastprod.broker.faults.target import RequestTarget, aim
from support.broker.fault_requests import target_of
from support.broker.world import batch_of, produce_request

BATCH = batch_of(b"a")


def target(topic: str = "t") -> RequestTarget:
    return target_of("Produce", produce_request([(topic, 0, BATCH)]))


def plan(
    queue: FaultQueue[str], effect: str, n: int | None = 1, after: int = 0, topic: str | None = None
) -> None:
    queue.add(PlannedFault(effect, aim("Produce", topic), n, after))


def effects(queue: FaultQueue[str], count: int, topic: str = "t") -> list[str | None]:
    return [queue.take(target(topic)) for _ in range(count)]


def test_the_oldest_is_first_and_each_lasts_for_its_count() -> None:
    queue: FaultQueue[str] = FaultQueue()
    plan(queue, "a", n=2)
    plan(queue, "b")
    assert len(queue) == 2
    assert effects(queue, 4) == ["a", "a", "b", None]
    assert len(queue) == 0


def test_so_many_requests_pass_first() -> None:
    queue: FaultQueue[str] = FaultQueue()
    plan(queue, "a", after=2)
    assert effects(queue, 4) == [None, None, "a", None]


def test_a_request_that_one_fault_takes_is_not_one_that_passes_another() -> None:
    queue: FaultQueue[str] = FaultQueue()
    plan(queue, "a", n=2)
    plan(queue, "b", after=1)
    assert effects(queue, 5) == ["a", "a", None, "b", None]


def test_a_request_that_passes_one_fault_may_meet_the_next() -> None:
    queue: FaultQueue[str] = FaultQueue()
    plan(queue, "a", after=1)
    plan(queue, "b")
    assert effects(queue, 3) == ["b", "a", None]


def test_one_without_end_comes_last_and_replaces_the_older() -> None:
    queue: FaultQueue[str] = FaultQueue()
    plan(queue, "old", n=None)
    plan(queue, "new", n=None)
    plan(queue, "once")
    assert effects(queue, 3) == ["once", "new", "new"]
    assert len(queue) == 2
    queue.clear()
    assert effects(queue, 1) == [None]


def test_requests_for_another_topic_do_not_count() -> None:
    queue: FaultQueue[str] = FaultQueue()
    plan(queue, "a", n=1, after=1, topic="t")
    assert effects(queue, 3, "u") == [None, None, None]
    assert effects(queue, 3) == [None, "a", None]


@pytest.mark.parametrize(
    ("n", "after", "said"), [(0, 0, "n is 0"), (-1, 0, "n is -1"), (1, -1, "after is -1")]
)
def test_counts_that_cannot_be_are_refused(n: int, after: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PlannedFault("a", aim("all"), n, after)
