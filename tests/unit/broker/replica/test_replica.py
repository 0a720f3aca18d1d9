"""FollowerState: how long ago a follower had everything."""

from __future__ import annotations

from fastprod.broker.replica.replica import FollowerState


def test_a_follower_that_fetches_at_the_end_has_everything() -> None:
    follower = FollowerState(0)
    assert follower.log_end_offset == -1
    follower.fetched(5, 5, 100)
    assert follower.is_caught_up(5, 10_000, 1)
    assert follower.is_caught_up(6, 101, 1)
    assert not follower.is_caught_up(6, 102, 1)


def test_a_follower_that_has_what_there_was_lags_since_then() -> None:
    """Else one that fetches steadily below a growing end would never be in sync."""
    follower = FollowerState(0)
    follower.fetched(5, 10, 100)
    assert follower.last_caught_up_ns == 0
    follower.fetched(10, 20, 200)
    assert follower.last_caught_up_ns == 100
    follower.fetched(15, 30, 300)
    assert follower.last_caught_up_ns == 100
