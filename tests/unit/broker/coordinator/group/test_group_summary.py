"""What administrators are told (B-E2)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.group_summary import summary_of
from support.groups.group_world import GroupWorld, subscribed


def test_only_a_stable_group_tells_what_its_members_have() -> None:
    """B-E2"""
    world = GroupWorld()
    (member,) = world.stable()
    told = summary_of(world.group())
    assert (told.state, told.protocol, told.protocol_type) == ("Stable", "range", "consumer")
    assert told.members[0].metadata == subscribed("t")
    assert told.members[0].assignment == member.encode()
    world.join()
    told = summary_of(world.group())
    assert (told.state, told.protocol) == ("PreparingRebalance", "")
    assert {each.assignment for each in told.members} == {b""}
