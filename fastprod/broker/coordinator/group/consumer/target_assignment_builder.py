"""TargetAssignmentBuilder: what each member of a group is to read, and what of that is new.

Source: TargetAssignmentBuilder of Apache Kafka 4.3; contract B-E3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fastprod.broker.cluster.topics import Topics
from fastprod.broker.coordinator.group.consumer import range_assignor, uniform_assignor
from fastprod.broker.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    ResolvedRegularExpression,
)
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    Assignment,
    ConsumerGroupMember,
)
from fastprod.broker.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupRecord,
    target_member_record,
    target_record,
)
from fastprod.broker.coordinator.group.consumer.group_spec import Assignor, GroupSpec, MemberSpec

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    uniform_assignor.NAME: uniform_assignor.assign,
    range_assignor.NAME: range_assignor.assign,
}
"""By their names; the first is used if no member has a say."""

DEFAULT_ASSIGNOR: Final = next(iter(ASSIGNORS))


class TargetAssignment(NamedTuple):
    """What each member is to read.

    Attributes:
        assignments: by member.
        records: what of that is new, and the epoch.
    """

    assignments: Mapping[str, Assignment]
    records: list[ConsumerGroupRecord]


def build_target(
    group: ConsumerGroup,
    topics: Topics,
    members: Mapping[str, ConsumerGroupMember],
    resolved: Mapping[str, ResolvedRegularExpression],
    epoch: int,
    now_ms: int,
) -> TargetAssignment:
    """Share the partitions anew.

    Args:
        group: with the assignment so far; its lock is held.
        topics: of the cluster.
        members: as they are about to be.
        resolved: likewise, what their regular expressions match.
        epoch: of the new assignment.
        now_ms: by the broker's clock.
    """
    specs = {
        member_id: MemberSpec(
            group.ids_of(group.names_of(member, resolved)),
            member.instance_id,
            group.target_of(member),
        )
        for member_id, member in members.items()
    }
    counts = {}
    for topic_id in frozenset().union(*(each.topic_ids for each in specs.values())):
        topic = topics.by_id(topic_id)
        # It may have been deleted just now.
        counts[topic_id] = 0 if topic is None else len(topic.partitions)
    assignor = ASSIGNORS[group.preferred_assignor(members.values()) or DEFAULT_ASSIGNOR]
    assignments = assignor(GroupSpec(specs, counts))
    records = [
        target_member_record(group.group_id, member_id, each)
        for member_id, each in assignments.items()
        if group.target_assignment.get(member_id) != each
    ]
    records.append(target_record(group.group_id, epoch, now_ms))
    return TargetAssignment(assignments, records)
