"""A member at one moment (B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
    plain,
)

T, U = b"t" * 16, b"u" * 16


def test_a_member_knows_since_when_it_has_each_partition() -> None:
    """B-E3, KIP-1251"""
    member = ConsumerGroupMember(
        "m", 5, 4, assigned={T: {0: 3, 1: 5}}, pending_revocation={U: {2: 4}}
    )
    assert member.assignment_epoch(T, 0) == 3
    assert member.assignment_epoch(U, 2) == 4
    assert member.assignment_epoch(T, 2) is None
    assert member.owns_all([(T, [0, 1])])
    assert not member.owns_all([(U, [2])])
    assert plain(member.assigned) == {T: {0, 1}}


def test_a_member_in_its_next_epoch_remembers_the_one_before() -> None:
    """B-E3"""
    member = ConsumerGroupMember("m").in_epoch(3).in_epoch(4)
    assert (member.member_epoch, member.previous_epoch) == (4, 3)
    assert member.is_reconciled_to(4)
    assert not member._replace(state=MemberState.UNRELEASED_PARTITIONS).is_reconciled_to(4)
