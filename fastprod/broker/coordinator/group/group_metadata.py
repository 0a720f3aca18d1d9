"""GroupMetadata: one group, its state, its members and its offsets.

Source: GroupMetadata and ClassicGroup of Apache Kafka; KIP-62, KIP-345, KIP-394; contract B-E2.
"""

from __future__ import annotations

import struct
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from typing import ClassVar, Final

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.coordinator.group.group import CONSUMER_PROTOCOL, Committing, Group
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.group.group_records import (
    GroupMetadataValue,
    StoredMember,
    TopicPartition,
    group_entry,
)
from fastprod.broker.coordinator.group.member_metadata import (
    JoinCallback,
    JoinedMember,
    JoinGroupResult,
    MemberMetadata,
    Protocol,
    SyncCallback,
    SyncGroupResult,
)
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.log.record_batch import LogEntry
from fastprod.broker.threads.deferring_lock import DeferringLock
from fastprod.broker.threads.purgatory import DelayedOperation
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)


class GroupState(Enum):
    """What a group is doing; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class GroupMetadata(Group):
    """One group whose members assign.

    All but `group_id`, `partition` and `lock` is guarded by `lock`.

    Args:
        group_id: its name.
        partition: of __consumer_offsets, where it is kept.
        now_ms: by the broker's clock.
        offsets: how far it has read; None: not at all.
        lock: of the group that had its name before; None: there was none.

    Attributes:
        state: what it is doing.
        state_timestamp_ms: since when.
        generation_id: grows with each rebalance.
        protocol_type: of its members; None: it never had any.
        protocol_name: which they follow in this generation.
        leader_id: the member that assigns.
        members: by id, in the order in which they came.
        pending_members: ids that were given away and have not joined yet (KIP-394), with what
            forgets them.
        pending_sync_members: those who have not asked for their assignment in this generation.
        new_member_added: the first rebalance waits a little longer.
        delayed_join: ends the rebalance that is being prepared.
        delayed_sync: drops the members that do not ask for their assignments.
        stored_entry: what its log has of it besides offsets; None: nothing.
    """

    __slots__ = (
        "_protocol_counts",
        "_static_members",
        "_subscribed_topics",
        "awaiting_join_count",
        "delayed_join",
        "delayed_sync",
        "generation_id",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync_members",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "stored_entry",
    )

    kind: ClassVar[str] = "classic"

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        now_ms: int,
        offsets: GroupOffsets | None = None,
        lock: DeferringLock | None = None,
    ) -> None:
        super().__init__(group_id, partition, offsets or GroupOffsets(), lock)
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, MemberMetadata] = {}
        self.pending_members: dict[str, DelayedOperation] = {}
        self.pending_sync_members: set[str] = set()
        self.new_member_added = False
        self.delayed_join: DelayedOperation | None = None
        self.delayed_sync: DelayedOperation | None = None
        self.stored_entry: LogEntry | None = None
        self.awaiting_join_count = 0
        self._static_members: dict[str, str] = {}
        self._protocol_counts: Counter[str] = Counter()
        self._subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"GroupMetadata({self.group_id!r}, {self.state.value}, generation "
            f"{self.generation_id}, {len(self.members)} members)"
        )

    @classmethod
    def load(
        cls,
        group_id: str,
        partition: Partition,
        now_ms: int,
        stored: GroupMetadataValue | None,
        offsets: GroupOffsets,
    ) -> GroupMetadata:
        """The group as its log has it; without a generation in it, it has offsets alone."""
        group = cls(group_id, partition, now_ms, offsets)
        if stored is None:
            return group
        group.stored_entry = group_entry(group_id, stored)
        group.generation_id = stored.generation
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol
        if stored.current_state_timestamp >= 0:
            group.state_timestamp_ms = stored.current_state_timestamp
        for each in stored.members:
            member = MemberMetadata(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout if each.rebalance_timeout < 0 else each.rebalance_timeout,
                each.session_timeout,
                stored.protocol_type,
                [(stored.protocol or "", each.subscription)],
                each.assignment,
            )
            group.add(member)
        group.leader_id = stored.leader or group.leader_id
        if group.members:
            group.state = GroupState.STABLE
        group._subscribed_topics = group._read_subscriptions()
        return group

    def stored(self) -> GroupMetadataValue:
        """What the log keeps of this generation."""
        protocol = self.protocol_name
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=protocol,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp_ms,
            members=[
                StoredMember(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout=each.rebalance_timeout_ms,
                    session_timeout=each.session_timeout_ms,
                    subscription=each.metadata(protocol or ""),
                    assignment=each.assignment,
                )
                for each in self.members.values()
            ],
        )

    # States.

    @property
    def is_dead(self) -> bool:
        """Whether it is kept no more."""
        return self.state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether nobody is in it, or was given an id."""
        return self.is_empty and not self.pending_members

    @property
    def state_name(self) -> str:
        """What it is doing, in Kafka's words."""
        return self.state.value

    @property
    def protocol(self) -> str:
        """The type of protocol of its members; "": it never had any."""
        return self.protocol_type or ""

    def is_in(self, *states: GroupState) -> bool:
        """Whether it is in one of these states."""
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in _PREVIOUS[GroupState.PREPARING_REBALANCE]

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state.

        Raises:
            ValueError: that state cannot follow; a mistake of the coordinator.
        """
        if self.state not in _PREVIOUS[state]:
            raise ValueError(
                f"group {self.group_id}: {state.value} cannot follow {self.state.value}"
            )
        self.state = state
        self.state_timestamp_ms = now_ms

    # Members.

    def new_member_id(self, client_id: str, group_instance_id: str | None) -> str:
        """An id that nobody has: the client's name, or its instance's, and a random part."""
        return f"{client_id if group_instance_id is None else group_instance_id}-{uuid.uuid4()}"

    def static_member_id(self, group_instance_id: str) -> str | None:
        """The member that stands for an instance now."""
        return self._static_members.get(group_instance_id)

    def refusal_of_member(self, member_id: str, group_instance_id: str | None) -> int:
        """NONE, or why a client is not that member."""
        if group_instance_id is not None:
            current = self._static_members.get(group_instance_id)
            if current is not None and current != member_id:
                return FENCED_INSTANCE_ID
            if current is None:
                return UNKNOWN_MEMBER_ID
        return NONE if member_id in self.members else UNKNOWN_MEMBER_ID

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest of the members may take to join again; 0 without any."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether the next generation can begin."""
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    def add(self, member: MemberMetadata, joined: JoinCallback | None = None) -> None:
        """Take a member in.

        Args:
            member: its id is new.
            joined: answers its JoinGroup.
        """
        if not self.members:
            self.protocol_type = member.protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self._static_members[member.group_instance_id] = member.member_id
        self._protocol_counts.update(member.protocol_names())
        if self.leader_id is None:
            self.leader_id = member.member_id
        if joined is not None:
            member.awaiting_join = joined
            self.awaiting_join_count += 1

    def update(
        self,
        member: MemberMetadata,
        protocols: Sequence[Protocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        joined: JoinCallback | None,
    ) -> None:
        """Note what a member says that joins again; an earlier JoinGroup of its is refused."""
        self._protocol_counts.subtract(member.protocol_names())
        member.protocols = list(protocols)
        self._protocol_counts.update(member.protocol_names())
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.answer_join(member, JoinGroupResult(REBALANCE_IN_PROGRESS, member.member_id))
        if joined is not None:
            member.awaiting_join = joined
            self.awaiting_join_count += 1

    def remove(self, member_id: str) -> MemberMetadata | None:
        """Take a member out, pending or not; its requests must have been answered."""
        self.pending_members.pop(member_id, None)
        self.pending_sync_members.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._protocol_counts.subtract(member.protocol_names())
        instance = member.group_instance_id
        if instance is not None and self._static_members.get(instance) == member_id:
            del self._static_members[instance]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static_member(self, old_id: str, new_id: str) -> MemberMetadata:
        """Let the restarted instance of a static member have its place (KIP-345).

        Whoever still waits under the old id is fenced.
        """
        old = self.members[old_id]
        self.answer_join(old, JoinGroupResult(FENCED_INSTANCE_ID, old_id))
        self.answer_sync(old, SyncGroupResult(FENCED_INSTANCE_ID))
        was_leader = self.leader_id == old_id
        self.remove(old_id)
        new = old.with_id(new_id)
        self.add(new)
        if was_leader:
            self.leader_id = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Have the leader be one that has joined; whether there is one."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.awaiting_join is not None:
            return True
        for each in self.members.values():
            if each.awaiting_join is not None:
                self.leader_id = each.member_id
                return True
        return False

    def answer_join(self, member: MemberMetadata, result: JoinGroupResult) -> None:
        """Answer the JoinGroup of a member that waits, once the lock is free."""
        respond, member.awaiting_join = member.awaiting_join, None
        if respond is not None:
            self.awaiting_join_count -= 1
            self.lock.defer(partial(respond, result))

    def await_sync(self, member: MemberMetadata, synced: SyncCallback) -> None:
        """Have a member wait for its assignment; an earlier SyncGroup of its is refused."""
        self.answer_sync(member, SyncGroupResult(REBALANCE_IN_PROGRESS))
        member.awaiting_sync = synced

    def answer_sync(self, member: MemberMetadata, result: SyncGroupResult) -> bool:
        """Answer the SyncGroup of a member; whether it waited."""
        respond, member.awaiting_sync = member.awaiting_sync, None
        if respond is None:
            return False
        self.lock.defer(partial(respond, result))
        return True

    def joined_members(self) -> list[JoinedMember]:
        """The members as their leader is told of them."""
        protocol = self.protocol_name or ""
        return [
            JoinedMember(each.member_id, each.group_instance_id, each.metadata(protocol))
            for each in self.members.values()
        ]

    # Protocols.

    def supports_protocols(self, protocol_type: str, protocols: Sequence[Protocol]) -> bool:
        """Whether a member with these could join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._protocol_counts[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The one that all members can follow and most of them like best; there is a member."""
        count = len(self.members)
        candidates = {name for name, found in self._protocol_counts.items() if found == count}
        votes = Counter(each.vote(candidates) for each in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self, now_ms: int) -> None:
        """Count the next generation, of the members that there are."""
        self.generation_id += 1
        self.pending_sync_members.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition_to(GroupState.EMPTY, now_ms)
        self._subscribed_topics = self._read_subscriptions()

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members read topics."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as that can be known."""
        return self._subscribed_topics is None or topic in self._subscribed_topics

    def _read_subscriptions(self) -> frozenset[str] | None:
        """The topics of all members; None: they do not say so."""
        if not self.is_consumer_group or (self.members and self.protocol_name is None):
            return None
        found: set[str] = set()
        for each in self.members.values():
            topics = subscription(each.metadata(self.protocol_name or ""))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    # Offsets.

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Partitions whose offsets have been kept long enough (KIP-211)."""
        if self.protocol_type is None:
            since = None
        elif self.state is GroupState.EMPTY:
            since = self.state_timestamp_ms
        elif self.is_consumer_group and self.state is GroupState.STABLE:
            since = None
        else:
            return []
        keeps_subscribed = self.protocol_type is not None and since is None
        found = []
        for place, committed in self.offsets.committed.items():
            if self.offsets.is_pending(place):
                continue
            if keeps_subscribed and self.is_subscribed_to(place[0]):
                continue
            start_ms = committed.commit_timestamp_ms if since is None else since
            if committed.is_expired(start_ms, now_ms, retention_ms):
                found.append(place)
        return found

    def check_commit(self, committing: Committing) -> dict[TopicPartition, int]:
        """Look whether somebody may commit; if so, all partitions.

        Raises:
            CoordinatorError: it may commit none.
        """
        generation_id, is_transactional = committing.generation_id, committing.is_transactional
        if self.is_dead:
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and self.is_empty:
            return {}
        if committing.names_nobody:
            # Older transactional producers do not say whose offsets they are.
            if is_transactional:
                return {}
            raise CoordinatorError(UNKNOWN_MEMBER_ID)
        code = self.refusal_of_member(committing.member_id, committing.group_instance_id)
        if code != NONE:
            raise CoordinatorError(code)
        if generation_id != self.generation_id:
            raise CoordinatorError(ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
            raise CoordinatorError(REBALANCE_IN_PROGRESS)
        return {}

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may."""

    def live_entries(self) -> list[LogEntry]:
        """What its log has of its newest generation, if there is one."""
        return [] if self.stored_entry is None else [self.stored_entry]

    def tombstones(self) -> list[LogEntry]:
        """What ends that."""
        return [] if self.stored_entry is None else [group_entry(self.group_id, None)]


def subscription(metadata: bytes) -> frozenset[str] | None:
    """The topics in what a consumer says for its protocol; None: it is something else.

    All versions of Kafka's ConsumerProtocol begin as version 0 does: version, topics.
    """
    try:
        (count,) = struct.unpack_from(">i", metadata, 2)
        at, topics = 6, []
        for _ in range(count):
            (size,) = struct.unpack_from(">h", metadata, at)
            at += 2
            if not 0 <= size <= len(metadata) - at:
                return None
            topics.append(str(metadata[at : at + size], "utf-8"))
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
