"""The assignor `range` (B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.group_spec import GroupSpec, MemberSpec
from fastprod.broker.coordinator.group.consumer.range_assignor import assign

T, U = b"t" * 16, b"u" * 16
BOTH = frozenset({T, U})


def test_each_member_has_neighbours_and_the_same_numbers_of_each_topic() -> None:
    """B-E3: the first ones have one more."""
    members = {name: MemberSpec(BOTH) for name in ("b", "a", "c")}
    assert assign(GroupSpec(members, {T: 7, U: 7})) == {
        "a": {T: {0, 1, 2}, U: {0, 1, 2}},
        "b": {T: {3, 4}, U: {3, 4}},
        "c": {T: {5, 6}, U: {5, 6}},
    }


def test_only_those_who_read_a_topic_share_it() -> None:
    """B-E3"""
    members = {"a": MemberSpec(BOTH), "b": MemberSpec(frozenset({U})), "c": MemberSpec(frozenset())}
    assert assign(GroupSpec(members, {T: 2, U: 3})) == {
        "a": {T: {0, 1}, U: {0, 1}},
        "b": {U: {2}},
        "c": {},
    }


def test_instances_come_first_whatever_their_members_are_called() -> None:
    """B-E3: so a restart changes nothing."""
    for first, second in (("x", "y"), ("z", "a")):
        members = {
            second: MemberSpec(frozenset({T}), "2"),
            "a dynamic one": MemberSpec(frozenset({T})),
            first: MemberSpec(frozenset({T}), "1"),
        }
        found = assign(GroupSpec(members, {T: 3}))
        assert [found[first], found[second]] == [{T: {0}}, {T: {1}}]


def test_more_members_than_partitions() -> None:
    """B-E3"""
    members = {name: MemberSpec(frozenset({T})) for name in "abc"}
    assert assign(GroupSpec(members, {T: 1})) == {"a": {T: {0}}, "b": {}, "c": {}}
    assert assign(GroupSpec({}, {})) == {}
