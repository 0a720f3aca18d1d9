"""The topics that match (B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.topic_regex_resolver import resolve
from support.groups.group_world import GroupWorld


def test_topics_that_may_be_known_and_are_no_ones_own() -> None:
    """B-E3: not the broker's own."""
    world = GroupWorld()
    for name in ("t2", "secret"):
        world.topics.create(name, 1)
    found = resolve(world.topics, ["t.*", ".*"], lambda name: name != "secret", 5)
    assert found["t.*"].topics == {"t", "t2"}
    assert found[".*"].topics == {"t", "t2", "u"}
    assert found["t.*"][1:] == (world.topics.version, 5)
