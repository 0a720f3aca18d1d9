"""Rebalancer: what happens to a group when members come, go or fall silent.

Every method but those for deadlines is called with the group's lock held; answers go out when it is
released.

Source: GroupCoordinator of Apache Kafka; KIP-62, KIP-134, KIP-345, KIP-394; contract B-E2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.delayed_operations import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedPendingMember,
    DelayedSync,
)
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata, GroupState
from fastprod.broker.coordinator.group.member_metadata import (
    JoinGroupResult,
    MemberMetadata,
    SyncGroupResult,
)
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.purgatory import DelayedOperation, DelayedOperationPurgatory
from fastprod.error_codes import NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID

_log = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""So long may a new member wait for the others: its client may be gone, and cannot say so."""

_NS_PER_MS: Final = 1_000_000

PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
EMPTY, STABLE, DEAD = GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD


class Rebalancer:
    """Rebalances groups, and looks after their members.

    Args:
        config: `group_initial_rebalance_delay_ms`.
        clock: what deadlines are measured by.
        purgatory: holds the deadlines; of the same clock.
        store_group: writes a generation down; returns NONE or Kafka's code.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        purgatory: DelayedOperationPurgatory,
        store_group: Callable[[GroupMetadata], int],
    ) -> None:
        self._initial_delay_ms = config.group_initial_rebalance_delay_ms
        self._most_members = config.group_max_size
        self._clock = clock
        self._purgatory = purgatory
        self._store_group = store_group

    # Rebalances.

    def prepare(self, group: GroupMetadata) -> None:
        """Begin a rebalance, unless one is being prepared: all members have to join again."""
        if not group.can_rebalance:
            return
        if group.is_in(COMPLETING):
            self.refuse_syncs(group, REBALANCE_IN_PROGRESS)
        self._cancel_sync(group)
        was_empty = group.is_in(EMPTY)
        group.transition_to(PREPARING, self._clock.time_ms())
        delay_ms, timeout_ms = self._initial_delay_ms, group.rebalance_timeout_ms
        if was_empty and delay_ms > 0:
            self._await_joins(group, delay_ms, max(timeout_ms - delay_ms, 0))
        else:
            self._await_joins(group, timeout_ms)
            self.maybe_complete_join(group)

    def maybe_complete_join(self, group: GroupMetadata) -> None:
        """Begin the next generation if nobody is missing."""
        operation = group.delayed_join
        if not isinstance(operation, DelayedJoin) or not group.is_in(PREPARING):
            return
        if operation.remaining_ms is None and group.has_all_members_joined:
            self._cancel_join(group)
            self._complete_join(group)

    def join_expired(self, group: GroupMetadata, operation: DelayedJoin) -> None:
        """Go on with those who have joined; the lock is not held."""
        with group.lock:
            if group.delayed_join is not operation:
                return
            group.delayed_join = None
            remaining_ms = operation.remaining_ms
            if group.new_member_added and remaining_ms:
                # More may come: as long again, if the members' patience lasts (KIP-134).
                group.new_member_added = False
                delay_ms = min(self._initial_delay_ms, remaining_ms)
                self._await_joins(group, delay_ms, remaining_ms - delay_ms)
            else:
                self._complete_join(group)

    def _await_joins(
        self, group: GroupMetadata, delay_ms: int, remaining_ms: int | None = None
    ) -> None:
        operation = DelayedJoin(self, group, delay_ms, remaining_ms)
        group.delayed_join = operation
        self._park(group, operation)

    def _complete_join(self, group: GroupMetadata) -> None:
        """Begin the next generation with those who have joined, and with silent static members."""
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                self._forget_member(group, member)
        if group.is_in(DEAD):
            return
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has joined: until their sessions end.
            self._await_joins(group, group.rebalance_timeout_ms)
            return
        group.begin_generation(self._clock.time_ms())
        if group.is_in(EMPTY):
            code = self._store_group(group)
            if code != NONE:
                _log.warning("%r: its end is not written down: error %d", group, code)
            return
        for member in group.members.values():
            is_leader = member.member_id == group.leader_id
            group.answer_join(member, joined(group, member.member_id, tells_members=is_leader))
            self.schedule_heartbeat(group, member)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        group.delayed_sync = DelayedSync(
            self, group, group.rebalance_timeout_ms, group.generation_id
        )
        self._park(group, group.delayed_sync)

    # Syncs.

    def synced(self, group: GroupMetadata, member_id: str) -> None:
        """A member has asked for its assignment."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._cancel_sync(group)

    def sync_expired(self, group: GroupMetadata, operation: DelayedSync) -> None:
        """Drop the members that have not asked for their assignments; the lock is not held."""
        with group.lock:
            if group.delayed_sync is not operation:
                return
            group.delayed_sync = None
            late = list(group.pending_sync_members)
            if not late or operation.generation_id != group.generation_id:
                return
            for member_id in late:
                member = group.members.get(member_id)
                if member is not None:
                    self._forget_member(group, member)
            self.prepare(group)

    def complete(self, group: GroupMetadata) -> None:
        """The leader has assigned, and it is written down: tell everybody who waits."""
        group.transition_to(STABLE, self._clock.time_ms())
        for member in group.members.values():
            result = SyncGroupResult(
                NONE, group.protocol_type, group.protocol_name, member.assignment
            )
            if group.answer_sync(member, result):
                self.schedule_heartbeat(group, member)

    def refuse_syncs(self, group: GroupMetadata, code: int) -> None:
        """Forget all assignments, and tell everybody who waits for one."""
        for member in group.members.values():
            member.assignment = b""
            if group.answer_sync(member, SyncGroupResult(code)):
                self.schedule_heartbeat(group, member)

    # Members.

    def add_pending(self, group: GroupMetadata, member_id: str, timeout_ms: int) -> None:
        """Expect a member that was given its id (KIP-394)."""
        operation = DelayedPendingMember(self, group, timeout_ms, member_id)
        group.pending_members[member_id] = operation
        self._park(group, operation)

    def forget_pending(self, group: GroupMetadata, member_id: str) -> None:
        """Expect it no longer: it is there."""
        self._withdraw(group.pending_members.pop(member_id, None))

    def remove_pending(self, group: GroupMetadata, member_id: str) -> None:
        """Expect it no longer: the others need not wait for it."""
        self.forget_pending(group, member_id)
        self.maybe_complete_join(group)

    def pending_expired(
        self, group: GroupMetadata, member_id: str, operation: DelayedPendingMember
    ) -> None:
        """It has not joined; the lock is not held."""
        with group.lock:
            if group.pending_members.get(member_id) is operation:
                self.remove_pending(group, member_id)

    def remove_member(self, group: GroupMetadata, member: MemberMetadata) -> None:
        """Take a member out, and share what it had among the others."""
        group.answer_join(member, JoinGroupResult(UNKNOWN_MEMBER_ID, ""))
        group.answer_sync(member, SyncGroupResult(UNKNOWN_MEMBER_ID))
        self._forget_member(group, member)
        if group.is_in(STABLE, COMPLETING):
            self.prepare(group)
        elif group.is_in(PREPARING):
            self.maybe_complete_join(group)

    def schedule_heartbeat(
        self, group: GroupMetadata, member: MemberMetadata, timeout_ms: int | None = None
    ) -> None:
        """Something was heard of a member: its session begins anew.

        Args:
            group: its group.
            member: of which.
            timeout_ms: how long; None: as the member has asked for.
        """
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        now_ns = self._clock.monotonic_ns()
        member.heartbeat_deadline_ns = now_ns + timeout_ms * _NS_PER_MS
        if member.heartbeat is not None and member.heartbeat_due_ns > member.heartbeat_deadline_ns:
            self._withdraw(member.heartbeat)
            member.heartbeat = None
        if member.heartbeat is None:
            self._park_heartbeat(group, member, timeout_ms)

    def heartbeat_expired(
        self, group: GroupMetadata, member: MemberMetadata, operation: DelayedHeartbeat
    ) -> None:
        """See whether something was heard of a member meanwhile; the lock is not held."""
        with group.lock:
            if member.heartbeat is not operation:
                return
            member.heartbeat = None
            left_ns = member.heartbeat_deadline_ns - self._clock.monotonic_ns()
            if left_ns > 0:
                self._park_heartbeat(group, member, left_ns / _NS_PER_MS)
            elif member.is_new or not member.is_awaiting:
                _log.info("%r: nothing was heard of %r, it is taken out", group, member)
                self.remove_member(group, member)
            # Else it cannot say anything while it waits; its next session begins with the answer.

    def _park_heartbeat(
        self, group: GroupMetadata, member: MemberMetadata, delay_ms: float
    ) -> None:
        operation = DelayedHeartbeat(self, group, delay_ms, member)
        member.heartbeat = operation
        member.heartbeat_due_ns = self._clock.monotonic_ns() + round(delay_ms * _NS_PER_MS)
        self._park(group, operation)

    def forget_heartbeat(self, member: MemberMetadata) -> None:
        """Expect no sign of life of somebody who is no member any more."""
        self._withdraw(member.heartbeat)
        member.heartbeat = None

    def _forget_member(self, group: GroupMetadata, member: MemberMetadata) -> None:
        group.remove(member.member_id)
        self.forget_heartbeat(member)

    # Coordinators that come and go.

    def group_loaded(self, group: GroupMetadata) -> None:
        """Another coordinator has looked after it so far: sessions begin anew."""
        for member in group.members.values():
            self.schedule_heartbeat(group, member)
        if len(group.members) > self._most_members:
            self.prepare(group)

    def group_unloaded(self, group: GroupMetadata, code: int) -> None:
        """Another coordinator looks after it from now on: it is dead here."""
        if group.is_in(DEAD):
            return
        group.transition_to(DEAD, self._clock.time_ms())
        self._cancel_join(group)
        self._cancel_sync(group)
        for member in group.members.values():
            group.answer_join(member, JoinGroupResult(code, member.member_id))
            group.answer_sync(member, SyncGroupResult(code))
            self.forget_heartbeat(member)
        for operation in group.pending_members.values():
            self._withdraw(operation)
        group.pending_members.clear()

    def _cancel_join(self, group: GroupMetadata) -> None:
        self._withdraw(group.delayed_join)
        group.delayed_join = None

    def _cancel_sync(self, group: GroupMetadata) -> None:
        self._withdraw(group.delayed_sync)
        group.delayed_sync = None

    def _park(self, group: GroupMetadata, operation: DelayedOperation) -> None:
        self._purgatory.complete_or_watch(operation, (group,))

    def _withdraw(self, operation: DelayedOperation | None) -> None:
        if operation is not None:
            self._purgatory.withdraw(operation)


def joined(
    group: GroupMetadata,
    member_id: str,
    *,
    tells_members: bool,
    leader_id: str | None = None,
    skips_assignment: bool = False,
) -> JoinGroupResult:
    """The answer to a member of the group's generation.

    Args:
        group: its group.
        member_id: whose answer it is.
        tells_members: whether it has to know the others, because it assigns.
        leader_id: whom to name as the leader; None: the leader.
        skips_assignment: it leads and does not assign.
    """
    return JoinGroupResult(
        NONE,
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        (group.leader_id or "") if leader_id is None else leader_id,
        group.joined_members() if tells_members else (),
        skips_assignment,
    )
