"""How a partition comes to other nodes: each step as a decision (KIP-455)."""

from __future__ import annotations

from fastprod.broker.cluster.decision import NO_NODE, Decision
from fastprod.broker.cluster.reassignment import begun, completed, reverted

NODES = range(6)
BEFORE = Decision(0, 7, [0, 1, 2], [0, 1, 2])


def test_those_that_are_added_are_waited_for() -> None:
    """B-D4.12"""
    now = begun(BEFORE, [3, 4, 1])
    assert now == Decision(0, 7, [3, 4, 1, 0, 2], [0, 1, 2], (3, 4), (0, 2))
    assert completed(now, NODES) is now
    one = now._replace(isr=[3, 1, 0, 2])
    assert completed(one, NODES) is one
    both = now._replace(isr=[3, 4, 1, 0])
    assert completed(both, NODES) == Decision(3, 8, [3, 4, 1], [3, 4, 1])


def test_a_leader_that_stays_leads_on() -> None:
    now = begun(BEFORE, [0, 3])
    done = completed(now._replace(isr=[0, 3, 1, 2]), NODES)
    assert done == Decision(0, 7, [0, 3], [0, 3])


def test_what_only_goes_goes_at_once() -> None:
    assert completed(begun(BEFORE, [1, 2]), NODES) == Decision(1, 8, [1, 2], [1, 2])
    assert completed(begun(BEFORE, [2, 0, 1]), NODES) == Decision(0, 7, [2, 0, 1], [0, 1, 2])


def test_it_does_not_end_while_nobody_who_stays_can_lead() -> None:
    now = begun(BEFORE, [1, 2])
    assert completed(now, [0]) is now
    alone = begun(BEFORE._replace(isr=[0]), [1, 2])
    assert completed(alone, NODES) is alone
    nobody = begun(BEFORE._replace(leader=NO_NODE, isr=[1]), [1, 2])
    assert completed(nobody, [0]) is nobody
    assert completed(nobody, [1]) == Decision(1, 8, [1, 2], [1])


def test_nothing_ends_where_nothing_is_under_way() -> None:
    assert completed(BEFORE, NODES) is BEFORE


def test_a_cancellation_gives_back_the_nodes_of_before() -> None:
    now = begun(BEFORE, [3, 4, 1])._replace(isr=[3, 1, 0, 2])
    assert reverted(now, NODES) == Decision(0, 7, [1, 0, 2], [1, 0, 2])
    led = now._replace(leader=3, leader_epoch=8)
    assert reverted(led, NODES) == Decision(1, 9, [1, 0, 2], [1, 0, 2])
    assert reverted(led, []) == Decision(NO_NODE, 9, [1, 0, 2], [1, 0, 2])
    assert reverted(now._replace(isr=[3]), NODES) is None


def test_one_takes_the_place_of_another() -> None:
    """Who was being added and is wanted no more goes at the end, and by a cancellation, too."""
    first = begun(BEFORE, [1, 2, 3])
    now = begun(first, [1, 2, 4])
    assert now == Decision(0, 7, [1, 2, 4, 0, 3], [0, 1, 2], (3, 4), (0, 3))
    done = completed(now._replace(isr=[1, 2, 4, 0]), NODES)
    assert done == Decision(1, 8, [1, 2, 4], [1, 2, 4])
    back = reverted(now, NODES)
    assert back is not None
    assert sorted(back.replicas) == [0, 1, 2]
    assert begun(first, [0, 1, 2]) == Decision(0, 7, [0, 1, 2, 3], [0, 1, 2], (3,), (3,))
