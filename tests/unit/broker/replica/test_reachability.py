"""Who hears whom."""

from __future__ import annotations

from fastprod.broker.replica.reachability import Reachability


def test_a_node_that_is_cut_off_lives_and_hears_nobody() -> None:
    reach = Reachability()
    assert reach.connects(0, 1)
    reach.cut_off = frozenset({1})
    assert reach.lives(1)
    assert not reach.hears_controller(1)
    assert not reach.connects(0, 1)
    reach.cut_off, reach.down = frozenset(), frozenset({0})
    assert not reach.lives(0)
    assert not reach.connects(0, 1)
    assert reach.hears_controller(1)
