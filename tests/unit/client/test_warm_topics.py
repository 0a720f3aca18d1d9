"""WarmTopics: followed from the start, and the leaders of each told once."""

from __future__ import annotations

from fastprod.client.warm_topics import WarmTopics
from support.oracle.metadata_world import B1, B2, World, topic_metadata

LEADER_NOT_AVAILABLE = 5


def test_they_are_in_the_first_request_and_their_leaders_are_told_once() -> None:
    """P-A.1.9."""
    world = World()
    warm = WarmTopics(["t", "u"], world.metadata, world.now_ms)
    assert world.ask().topics == ("t", "u")
    assert warm.take_leaders() == []
    world.give(topic_metadata("t", (5, 5), leader=2))
    assert warm.take_leaders() == [B2]
    assert warm.take_leaders() == []
    world.give(topic_metadata("t", (6,), leader=1), topic_metadata("u", leader=1))
    assert warm.take_leaders() == [B1]
    world.give(topic_metadata("t", (7,), leader=2), topic_metadata("u", (6,), leader=2))
    assert warm.take_leaders() == []


def test_a_topic_that_is_being_made_is_waited_for() -> None:
    """P-A.1.9: until its partitions are known; one without a leader is the first record's."""
    world = World()
    warm = WarmTopics(["t"], world.metadata, world.now_ms)
    world.give(topic_metadata("t", error=LEADER_NOT_AVAILABLE))
    assert warm.take_leaders() == []
    world.give(topic_metadata("t", leader=-1))
    assert warm.take_leaders() == []
    world.give(topic_metadata("t", (6,), leader=1))
    assert warm.take_leaders() == []


def test_nobody_is_followed_without_topics() -> None:
    world = World()
    warm = WarmTopics([], world.metadata, world.now_ms)
    assert world.ask().topics == ()
    world.give(topic_metadata("t"))
    assert warm.take_leaders() == []
