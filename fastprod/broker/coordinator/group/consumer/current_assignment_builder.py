"""CurrentAssignmentBuilder: a member's next step towards its target assignment.

A member first gives up what it is not to have any more, then goes to the epoch of the target, and
is given each of its partitions as soon as its previous owner has given it up.

Source: CurrentAssignmentBuilder of Apache Kafka 4.3; KIP-848; contract B-E3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    NO_PARTITIONS,
    Assignment,
    ConsumerGroupMember,
    EpochAssignment,
    MemberState,
)

Owned = Iterable[tuple[bytes, Iterable[int]]] | None
"""What a member says that it has; None: it does not say."""

Owners = Mapping[tuple[bytes, int], str]
"""Who has a partition, by topic id and number; those that nobody has are left out."""

_EpochPartitions = dict[bytes, dict[int, int]]


class Target(NamedTuple):
    """Where a member is to get.

    Attributes:
        epoch: of the target assignment.
        assignment: the member's part in it.
        topic_ids: what the member wants to read now; nothing else is given to it.
        owners: of all partitions of the group.
    """

    epoch: int
    assignment: Assignment
    topic_ids: Collection[bytes]
    owners: Owners


def next_assignment(
    member: ConsumerGroupMember, target: Target, owned: Owned, has_changed_subscription: bool
) -> ConsumerGroupMember:
    """The member after one more step; the same one if there is none to take now.

    Args:
        member: as it is.
        target: where it is to get.
        owned: what it says that it has.
        has_changed_subscription: it must not keep what it does not want to read any more.
    """
    if member.state is MemberState.STABLE:
        if member.member_epoch != target.epoch:
            return _reconciled(member, member.member_epoch, target, owned)
        return _without_unsubscribed(member, target, owned) if has_changed_subscription else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if not _owns_some(owned, member.pending_revocation):
            return _reconciled(member, member.member_epoch, target, owned)
        return _without_unsubscribed(member, target, owned) if has_changed_subscription else member
    return _reconciled(member, member.member_epoch, target, owned)


def _owns_some(owned: Owned, partitions: EpochAssignment) -> bool:
    """Whether a member has some of these, as far as is known."""
    if owned is None:
        return True
    return any(
        index in partitions.get(topic_id, {}) for topic_id, indexes in owned for index in indexes
    )


def _without_unsubscribed(
    member: ConsumerGroupMember, target: Target, owned: Owned
) -> ConsumerGroupMember:
    """The member without the topics that it does not want to read any more."""
    kept: _EpochPartitions = {}
    pending = {topic_id: dict(each) for topic_id, each in member.pending_revocation.items()}
    for topic_id, each in member.assigned.items():
        if topic_id in target.topic_ids:
            kept[topic_id] = dict(each)
        else:
            pending.setdefault(topic_id, {}).update(each)
    if len(kept) == len(member.assigned):
        return member
    again = member.in_epoch(member.member_epoch)._replace(assigned=kept)
    if _owns_some(owned, pending):
        return again._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
    return again


def _reconciled(
    member: ConsumerGroupMember, epoch: int, target: Target, owned: Owned
) -> ConsumerGroupMember:
    """The member with less, if it still has what it is to give up; else with what is free."""
    kept: _EpochPartitions = {}
    revoked: _EpochPartitions = {}
    free: list[tuple[bytes, int]] = []
    is_waiting = False
    for topic_id in dict.fromkeys([*target.assignment, *member.assigned]):
        # What it is to have may be older than what it wants to read.
        wanted = target.assignment.get(topic_id, ()) if topic_id in target.topic_ids else ()
        for index, since in member.assigned.get(topic_id, {}).items():
            (kept if index in wanted else revoked).setdefault(topic_id, {})[index] = since
        has = member.assigned.get(topic_id, {})
        given_up = member.pending_revocation.get(topic_id, {})
        for index in wanted:
            if index in has:
                continue
            if (topic_id, index) in target.owners and index not in given_up:
                is_waiting = True
            else:
                free.append((topic_id, index))
    if revoked and _owns_some(owned, revoked):
        return member.in_epoch(epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
        )
    for topic_id, index in free:
        kept.setdefault(topic_id, {})[index] = target.epoch
    return member.in_epoch(target.epoch)._replace(
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=kept,
        pending_revocation=NO_PARTITIONS,
    )
