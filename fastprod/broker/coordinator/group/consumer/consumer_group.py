"""ConsumerGroup: one group that the broker assigns, its epochs, members and assignments.

Its state is what its records say: a change is written down first, and then replayed, by the same
code that reads the log.

Source: ConsumerGroup and ModernGroup of Apache Kafka 4.3; KIP-848, KIP-1251; contract B-E3.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import ClassVar, Final, NamedTuple

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.coordinator.delayed_call import DelayedCall
from fastprod.broker.coordinator.group.consumer import consumer_group_records as records
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    NOTHING,
    Assignment,
    ConsumerGroupMember,
    MemberState,
)
from fastprod.broker.coordinator.group.consumer.consumer_group_records import ConsumerGroupRecord
from fastprod.broker.coordinator.group.group import CONSUMER_PROTOCOL, Committing, Group
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.group.group_records import TopicPartition
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.log.record_batch import LogEntry
from fastprod.broker.threads.deferring_lock import DeferringLock
from fastprod.error_codes import (
    ILLEGAL_GENERATION,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)

FIRST_EPOCH: Final = 1
"""Of a group that nobody has joined yet; its assignment's is one less."""

_HASH: Final = struct.Struct(">q")


class ConsumerGroupState(Enum):
    """What a group is doing; the values are Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegularExpression(NamedTuple):
    """The topics that a regular expression matches.

    Attributes:
        topics: their names.
        version: of the cluster's topics, when they were looked at.
        timestamp_ms: when that was.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Session:
    """How long a member is waited for.

    Attributes:
        deadline_ns: by the broker's clock.
        operation: looks at it.
    """

    __slots__ = ("deadline_ns", "operation")

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns
        self.operation: DelayedCall | None = None


class ConsumerGroup(Group):
    """One group. All but `group_id`, `partition` and `lock` is guarded by `lock`.

    Args:
        group_id: its name.
        partition: of __consumer_offsets, where it is kept.
        topics: of the cluster.
        offsets: how far it has read.
        lock: of the group that had its name before; None: there was none.

    Attributes:
        epoch: grows with each change of its members, what they read, or the topics.
        metadata_hash: what the topics were like in that epoch; 0: there were none.
        assignment_epoch: the epoch that its target assignment is for.
        assignment_timestamp_ms: when that was made; 0: not known.
        members: by id.
        static_members: ids of members, by instance.
        target_assignment: what each member is to read.
        owners: who has a partition, by topic id and number.
        resolved: what the members' regular expressions match.
        resolved_version: of the cluster's topics when they were looked at last; -1: never here.
        resolved_ms: when that was.
        sessions: of its members, by id.
        rebalances: how long a member may take to give partitions up, by id.
    """

    __slots__ = (
        "_is_dead",
        "_readers",
        "_topics",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "members",
        "metadata_hash",
        "owners",
        "rebalances",
        "resolved",
        "resolved_ms",
        "resolved_version",
        "sessions",
        "static_members",
        "target_assignment",
    )

    kind: ClassVar[str] = "consumer"

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        topics: Topics,
        offsets: GroupOffsets,
        lock: DeferringLock | None = None,
    ) -> None:
        super().__init__(group_id, partition, offsets, lock)
        self._topics = topics
        self._is_dead = False
        self._readers: frozenset[str] | None = None
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.target_assignment: dict[str, Assignment] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.resolved: dict[str, ResolvedRegularExpression] = {}
        self.resolved_version = -1
        self.resolved_ms = 0
        self.sessions: dict[str, Session] = {}
        self.rebalances: dict[str, Session] = {}

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.state_name}, epoch {self.epoch}, "
            f"{len(self.members)} members)"
        )

    # States.

    @property
    def is_dead(self) -> bool:
        """Whether it is kept no more."""
        return self._is_dead

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def is_unused(self) -> bool:
        """Whether nobody is in it."""
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """What it is doing."""
        if self._is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """What it is doing, in Kafka's words."""
        return self.state.value

    @property
    def protocol(self) -> str:
        """Its members read topics."""
        return CONSUMER_PROTOCOL

    @property
    def is_consumer_group(self) -> bool:
        """Its members read topics."""
        return True

    def die(self) -> None:
        """Be kept no more."""
        self._is_dead = True

    # Members and what they read.

    def member(self, member_id: str) -> ConsumerGroupMember:
        """One member.

        Raises:
            CoordinatorError: it is none.
        """
        found = self.members.get(member_id)
        if found is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise CoordinatorError(UNKNOWN_MEMBER_ID, text)
        return found

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """The member that stands for an instance now."""
        member_id = self.static_members.get(instance_id or "")
        return None if member_id is None else self.members[member_id]

    def members_with(self, updated: ConsumerGroupMember) -> dict[str, ConsumerGroupMember]:
        """The members, as if this one had come, and had the place of its instance."""
        members = dict(self.members)
        before = self.static_members.get(updated.instance_id or "")
        if before is not None and before != updated.member_id:
            del members[before]
        members[updated.member_id] = updated
        return members

    def target_of(self, member: ConsumerGroupMember) -> Assignment:
        """What a member is to read; a new one of a known instance, what that was to read."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.target_assignment.get(member_id, NOTHING)

    def names_of(
        self,
        member: ConsumerGroupMember,
        resolved: Mapping[str, ResolvedRegularExpression] | None = None,
    ) -> frozenset[str]:
        """The topics that a member reads, whether or not they are there."""
        if not member.topic_regex:
            return member.topic_names
        found = (self.resolved if resolved is None else resolved).get(member.topic_regex)
        return member.topic_names if found is None else member.topic_names | found.topics

    def ids_of(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those topics that are there."""
        found = (self._topics.get(name) for name in names)
        return frozenset(each.id for each in found if each is not None)

    @property
    def topic_names(self) -> frozenset[str]:
        """The topics that its members read."""
        if self._readers is None:
            self._readers = frozenset().union(*map(self.names_of, self.members.values()))
        return self._readers

    def hash_of(self, names: Iterable[str]) -> int:
        """A number that changes when one of these topics comes, goes or gets partitions.

        Kafka's is XXH3 of the same, and of racks; nobody compares the two.
        """
        found = [(name, topic) for name in sorted(names) if (topic := self._topics.get(name))]
        if not found:
            return 0
        # Here: it loads OpenSSL, some 4 MB that a broker without such groups does not need.
        import hashlib  # noqa: PLC0415

        digest = hashlib.blake2b(digest_size=_HASH.size)
        for name, topic in found:
            digest.update(topic.id + struct.pack(">i", len(topic.partitions)) + name.encode())
        (number,) = _HASH.unpack(digest.digest())
        return int(number)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return topic in self.topic_names

    def readers_of_regex(self, regex: str) -> int:
        """How many members have that regular expression."""
        return sum(each.topic_regex == regex for each in self.members.values())

    def preferred_assignor(
        self, members: Iterable[ConsumerGroupMember] | None = None
    ) -> str | None:
        """What most members want that have a say."""
        members = self.members.values() if members is None else members
        votes = Counter(each.server_assignor for each in members if each.server_assignor)
        return votes.most_common(1)[0][0] if votes else None

    # Offsets.

    def check_commit(self, committing: Committing) -> dict[TopicPartition, int]:
        """The partitions whose offsets a member may not commit, and why (KIP-1251).

        Raises:
            CoordinatorError: it may commit none.
        """
        epoch = committing.generation_id
        if epoch < 0 and not self.members:
            return {}
        if committing.is_transactional and committing.names_nobody:
            return {}
        member = self.member(committing.member_id)
        if not committing.is_transactional and not committing.knows_epochs:
            raise CoordinatorError(UNSUPPORTED_VERSION)
        if epoch == member.member_epoch:
            return {}
        # Their requests know no epochs.
        stale = ILLEGAL_GENERATION if committing.is_transactional else STALE_MEMBER_EPOCH
        if epoch > member.member_epoch:
            raise CoordinatorError(stale)
        refused = {}
        for place in committing.offsets:
            topic = self._topics.get(place[0])
            since = None if topic is None else member.assignment_epoch(topic.id, place[1])
            if since is None or epoch < since:
                refused[place] = stale
        return refused

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Look whether somebody may ask for offsets as a member.

        Raises:
            CoordinatorError: it may not.
        """
        if member_id is None and member_epoch < 0:
            return
        if self.member(member_id or "").member_epoch != member_epoch:
            raise CoordinatorError(STALE_MEMBER_EPOCH)

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Partitions that nobody reads, and whose offsets have been kept long enough."""
        return [
            place
            for place, committed in self.offsets.committed.items()
            if not self.is_subscribed_to(place[0])
            and not self.offsets.is_pending(place)
            and committed.is_expired(committed.commit_timestamp_ms, now_ms, retention_ms)
        ]

    # Records.

    def live_entries(self) -> list[LogEntry]:
        """The records that say what it is now, but for its offsets."""
        name, members = self.group_id, self.members.values()
        found = [records.member_record(name, each) for each in members]
        found += [
            records.regex_record(name, regex, each.topics, each.version, each.timestamp_ms)
            for regex, each in self.resolved.items()
        ]
        found.append(records.group_record(name, self.epoch, self.metadata_hash))
        found += [
            records.target_member_record(name, member_id, each)
            for member_id, each in self.target_assignment.items()
        ]
        found.append(
            records.target_record(name, self.assignment_epoch, self.assignment_timestamp_ms)
        )
        found += [records.current_record(name, each) for each in members]
        return [each.entry() for each in found]

    def tombstones(self) -> list[LogEntry]:
        """The records that say that it is no more, but for its offsets."""
        name = self.group_id
        found = [each for id in self.members for each in records.member_tombstones(name, id)]
        found += [records.regex_tombstone(name, each) for each in self.resolved]
        return [each.entry() for each in [*found, *records.group_tombstones(name)]]

    def replay(self, record: ConsumerGroupRecord) -> None:
        """Be what a record of this group says that was written down."""
        self._readers = None
        _REPLAYS[record.type.number](self, record)

    def _replay_group(self, record: ConsumerGroupRecord) -> None:
        if record.value is None:
            self._is_dead = True
            return
        self.epoch = record.value.epoch
        self.metadata_hash = record.value.metadata_hash

    def _replay_target(self, record: ConsumerGroupRecord) -> None:
        if record.value is not None:
            self.assignment_epoch = record.value.assignment_epoch
            self.assignment_timestamp_ms = record.value.assignment_timestamp

    def _replay_target_member(self, record: ConsumerGroupRecord) -> None:
        member_id = record.key.member_id
        if record.value is None:
            self.target_assignment.pop(member_id, None)
        else:
            self.target_assignment[member_id] = records.assignment_of(record.value)

    def _replay_regex(self, record: ConsumerGroupRecord) -> None:
        regex, value = record.key.regular_expression, record.value
        if value is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = ResolvedRegularExpression(
                frozenset(value.topics), value.version, value.timestamp
            )

    def _replay_member(self, record: ConsumerGroupRecord) -> None:
        member_id, value = record.key.member_id, record.value
        member = self.members.get(member_id, ConsumerGroupMember(member_id))
        if value is None:
            gone = member._replace(assigned=NO_PARTITIONS, pending_revocation=NO_PARTITIONS)
            self._own(member, gone)
            self.members.pop(member_id, None)
            self._leave_instance(member)
            return
        if member.instance_id != value.instance_id:
            self._leave_instance(member)
        self.members[member_id] = member._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
        )
        if value.instance_id is not None:
            self.static_members[value.instance_id] = member_id

    def _leave_instance(self, member: ConsumerGroupMember) -> None:
        """A member is gone, or has come again as another instance."""
        instance = member.instance_id
        if instance is not None and self.static_members.get(instance) == member.member_id:
            del self.static_members[instance]

    def _replay_current(self, record: ConsumerGroupRecord) -> None:
        member_id, value = record.key.member_id, record.value
        before = self.members.get(member_id)
        if value is None:
            if before is not None:
                gone = before._replace(
                    member_epoch=LEAVE_EPOCH,
                    previous_epoch=LEAVE_EPOCH,
                    assigned=NO_PARTITIONS,
                    pending_revocation=NO_PARTITIONS,
                )
                self._own(before, gone)
                self.members[member_id] = gone
            return
        before = before or ConsumerGroupMember(member_id)
        member = before._replace(
            member_epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=records.epochs_of(value.assigned_partitions, value.member_epoch),
            pending_revocation=records.epochs_of(
                value.partitions_pending_revocation, value.member_epoch
            ),
        )
        self._own(before, member)
        self.members[member_id] = member

    def _own(self, before: ConsumerGroupMember, now: ConsumerGroupMember) -> None:
        """Note what a member has now."""
        for each in (before.assigned, before.pending_revocation):
            for topic_id, epochs in each.items():
                for index in epochs:
                    # In a log that was cleaned, its next owner may come first.
                    if self.owners.get((topic_id, index)) == now.member_id:
                        del self.owners[topic_id, index]
        for each in (now.assigned, now.pending_revocation):
            for topic_id, epochs in each.items():
                for index in epochs:
                    self.owners[topic_id, index] = now.member_id


_REPLAYS: Final[dict[int, Callable[[ConsumerGroup, ConsumerGroupRecord], None]]] = {
    records.GROUP.number: ConsumerGroup._replay_group,
    records.TARGET.number: ConsumerGroup._replay_target,
    records.TARGET_MEMBER.number: ConsumerGroup._replay_target_member,
    records.REGEX.number: ConsumerGroup._replay_regex,
    records.MEMBER.number: ConsumerGroup._replay_member,
    records.CURRENT.number: ConsumerGroup._replay_current,
}
