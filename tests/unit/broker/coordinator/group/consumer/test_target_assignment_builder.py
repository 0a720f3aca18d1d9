"""What each member is to read, and what of that is new (B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from fastprod.broker.coordinator.group.consumer.target_assignment_builder import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    build_target,
)
from support.groups.group_world import GroupWorld


def test_only_what_is_new_is_written() -> None:
    """B-E3"""
    world = GroupWorld()
    world.come("a")
    group = world.consumer_group()
    other = ConsumerGroupMember("b", topic_names=frozenset({"u", "nowhere"}))
    members = group.members_with(other)
    target = build_target(group, world.topics, members, {}, 9, 77)
    assert target.assignments == {
        "a": {world.topic_id("t"): frozenset(range(4))},
        "b": {world.topic_id("u"): frozenset(range(4))},
    }
    assert [each.key.group_id for each in target.records] == ["g", "g"]
    assert target.records[0].key.member_id == "b"
    assert target.records[-1].value.assignment_epoch == 9
    assert target.records[-1].value.assignment_timestamp == 77


def test_the_assignors_are_kafkas() -> None:
    """B-E3: uniform unless somebody has a say."""
    assert list(ASSIGNORS) == ["uniform", "range"]
    assert DEFAULT_ASSIGNOR == "uniform"
