"""A member's steps towards its target assignment (B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from fastprod.broker.coordinator.group.consumer.current_assignment_builder import (
    Target,
    next_assignment,
)

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED = MemberState


def target(
    epoch: int, partitions: set[int], owners: dict[tuple[bytes, int], str] | None = None
) -> Target:
    return Target(epoch, {T: frozenset(partitions)}, {T, U}, owners or {})


def test_what_is_free_is_given_at_once() -> None:
    """B-E3"""
    member = ConsumerGroupMember("m")
    now = next_assignment(member, target(3, {0, 1}), None, False)
    assert (now.member_epoch, now.state, now.assigned) == (3, STABLE, {T: {0: 3, 1: 3}})
    assert next_assignment(now, target(3, {0, 1}), None, False) is now


def test_what_others_have_is_waited_for() -> None:
    """B-E3"""
    member = ConsumerGroupMember("m")
    now = next_assignment(member, target(3, {0, 1}, {(T, 1): "other"}), None, False)
    assert (now.member_epoch, now.state, now.assigned) == (3, UNRELEASED, {T: {0: 3}})
    later = next_assignment(now, target(3, {0, 1}, {(T, 0): "m"}), None, False)
    assert (later.state, later.assigned) == (STABLE, {T: {0: 3, 1: 3}})


def test_a_member_gives_up_before_it_goes_on() -> None:
    """B-E3: it has given up what it does not say that it has."""
    member = ConsumerGroupMember("m", 2, 1, assigned={T: {0: 1, 1: 2}})
    owners = {(T, 0): "m", (T, 1): "m"}
    now = next_assignment(member, target(3, {0, 2}, owners), None, False)
    assert (now.member_epoch, now.state) == (2, UNREVOKED)
    assert (now.assigned, now.pending_revocation) == ({T: {0: 1}}, {T: {1: 2}})
    for owned in (None, [(T, [0, 1])]):
        assert next_assignment(now, target(3, {0, 2}, owners), owned, False) is now
    later = next_assignment(now, target(3, {0, 2}, owners), [(T, [0])], False)
    assert (later.member_epoch, later.previous_epoch, later.state) == (3, 2, STABLE)
    assert (later.assigned, later.pending_revocation) == ({T: {0: 1, 2: 3}}, {})


def test_a_target_that_changes_meanwhile_gives_back_what_is_given_up() -> None:
    """B-E3: nobody else can have it."""
    member = ConsumerGroupMember(
        "m", 2, 1, UNREVOKED, assigned={T: {0: 1}}, pending_revocation={T: {1: 2}}
    )
    now = next_assignment(member, target(4, {0, 1}, {(T, 0): "m", (T, 1): "m"}), [(T, [0])], False)
    assert (now.state, now.assigned) == (STABLE, {T: {0: 1, 1: 4}})


def test_a_member_keeps_nothing_that_it_does_not_read_any_more() -> None:
    """B-E3: even before there is a new target."""
    member = ConsumerGroupMember("m", 2, 1, assigned={T: {0: 1}, U: {0: 2}})
    old = Target(2, {T: frozenset({0}), U: frozenset({0})}, {T}, {(T, 0): "m", (U, 0): "m"})
    now = next_assignment(member, old, None, True)
    assert (now.state, now.assigned, now.pending_revocation) == (
        UNREVOKED,
        {T: {0: 1}},
        {U: {0: 2}},
    )
    given_up = next_assignment(member, old, [(T, [0])], True)
    assert (given_up.state, given_up.assigned) == (STABLE, {T: {0: 1}})
    assert next_assignment(member, old._replace(topic_ids={T, U}), None, True) is member
    more = next_assignment(now, old._replace(topic_ids=()), [(U, [0])], True)
    assert (more.assigned, more.pending_revocation) == ({}, {T: {0: 1}, U: {0: 2}})
