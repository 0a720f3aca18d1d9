"""ConsumerGroupMember: one member of a group that the broker assigns, at one moment.

Source: ConsumerGroupMember and MemberState of Apache Kafka 4.3; KIP-848, KIP-1251; contract B-E3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

LEAVE_EPOCH: Final = -1
"""The epoch of a member that leaves."""

STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that leaves and is expected to come again."""

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by the topic's id; topics without any are left out. It never changes."""

EpochAssignment = Mapping[bytes, Mapping[int, int]]
"""The same; each partition with the epoch in which the member was given it (KIP-1251)."""

NOTHING: Final[Assignment] = MappingProxyType({})
NO_PARTITIONS: Final[EpochAssignment] = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member has come; the values are Kafka's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupMember(NamedTuple):
    """What the coordinator knows of a member. A change makes another one.

    Attributes:
        member_id: the client's, for the life of its process.
        member_epoch: of the target assignment that it follows; 0: it has just come.
        previous_epoch: the one before: the client may not know the newest yet.
        state: whether it has what it is to have.
        instance_id: of a static member.
        rack_id: where it says that it is.
        client_id: what its client calls itself.
        client_host: the address that it came from, as Kafka writes it.
        rebalance_timeout_ms: so long it may take to give partitions up.
        topic_names: it reads these.
        topic_regex: and those that match; "": no others.
        server_assignor: how it likes partitions to be assigned; None: it has no say.
        assigned: what it may read.
        pending_revocation: what it has to give up before it goes on.
    """

    member_id: str
    member_epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: EpochAssignment = NO_PARTITIONS
    pending_revocation: EpochAssignment = NO_PARTITIONS

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all that the target assignment of that epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def in_epoch(self, epoch: int) -> ConsumerGroupMember:
        """The member in another epoch; it is told later, and may come with the old one."""
        return self._replace(member_epoch=epoch, previous_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Since which epoch it has a partition, also one that it gives up; None: it has not."""
        for each in (self.assigned, self.pending_revocation):
            epoch = each.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def owns_all(self, partitions: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
        """Whether it was given all of these."""
        return all(
            self.assigned.get(topic_id, {}).keys() >= set(indexes)
            for topic_id, indexes in partitions
        )


def plain(assigned: EpochAssignment) -> dict[bytes, frozenset[int]]:
    """The partitions without their epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}
