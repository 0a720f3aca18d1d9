"""GroupSpec: what an assignor is told of a group.

Source: GroupSpec, MemberSubscription and SubscribedTopicDescriber of Apache Kafka; contract B-E3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fastprod.broker.coordinator.group.consumer.consumer_group_member import NOTHING, Assignment


class MemberSpec(NamedTuple):
    """One member.

    Attributes:
        topic_ids: what it wants to read, as far as there is such a topic.
        instance_id: of a static member.
        assignment: what it was to read so far; it may name topics that are gone.
    """

    topic_ids: frozenset[bytes]
    instance_id: str | None = None
    assignment: Assignment = NOTHING


class GroupSpec(NamedTuple):
    """A group.

    Attributes:
        members: by id.
        partition_counts: how many partitions each topic has that a member wants to read.
    """

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members want to read the same topics."""
        return len({each.topic_ids for each in self.members.values()}) <= 1


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""Shares all partitions among the members that want to read them; every member has an entry."""
