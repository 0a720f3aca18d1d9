"""GroupCoordinator: decides what becomes of each request about a group.

Source: GroupCoordinator of Apache Kafka; KIP-345, KIP-394, KIP-814; contract B-E2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from fastprod.broker.coordinator.group.consumer.consumer_group_heartbeats import (
    ConsumerGroupHeartbeats,
)
from fastprod.broker.coordinator.group.consumer.member_heartbeat import (
    HeartbeatResult,
    MemberHeartbeat,
)
from fastprod.broker.coordinator.group.group import Group
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from fastprod.broker.coordinator.group.group_metadata_manager import GroupMetadataManager
from fastprod.broker.coordinator.group.group_summary import GroupListing, GroupSummary, summary_of
from fastprod.broker.coordinator.group.member_metadata import (
    JoinCallback,
    JoinGroupResult,
    Joining,
    Leaving,
    MemberMetadata,
    SyncCallback,
    SyncGroupResult,
    Syncing,
)
from fastprod.broker.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from fastprod.broker.coordinator.group.rebalance import (
    COMPLETING,
    DEAD,
    EMPTY,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    PREPARING,
    STABLE,
    Rebalancer,
    joined,
)
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)


class GroupCoordinator:
    """The groups of a cluster; each is coordinated by the node that leads its partition.

    Any thread. Answers are given by callbacks or as results; no method waits for members.

    Args:
        config: of groups.
        topics: where __consumer_offsets is.
        clock: for sessions and time-outs.
        purgatory: of the same clock.
        worker: for what takes long.
        appended: called with a partition that has grown, without a lock.

    Attributes:
        manager: its groups.
        offsets: how far they have read.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        clock: Clock,
        purgatory: DelayedOperationPurgatory,
        worker: OverflowWorker,
        appended: Callable[[Partition], object],
    ) -> None:
        self._config = config
        self._clock = clock
        self._rebalancer = Rebalancer(config, clock, purgatory, self._store_group)
        self.manager = GroupMetadataManager(
            config,
            topics,
            clock,
            worker,
            appended,
            self._group_loaded,
            self._group_unloaded,
        )
        self._heartbeats = ConsumerGroupHeartbeats(config, topics, clock, purgatory, self.manager)
        self.offsets = OffsetMetadataManager(
            config, clock, purgatory, self.manager, self._rebalancer
        )

    def close(self) -> None:
        """Answer everybody who waits; groups stay in the log. May be repeated."""
        self.manager.close()

    def _store_group(self, group: GroupMetadata) -> int:
        return self.manager.store_group(group)

    def _group_loaded(self, group: Group) -> None:
        if isinstance(group, GroupMetadata):
            self._rebalancer.group_loaded(group)
        elif isinstance(group, ConsumerGroup):
            self._heartbeats.group_loaded(group)
        if not group.offsets.is_empty:
            self.offsets.watch()

    def _group_unloaded(self, group: Group, code: int) -> None:
        if isinstance(group, GroupMetadata):
            self._rebalancer.group_unloaded(group, code)
        elif isinstance(group, ConsumerGroup):
            group.die()
            self._heartbeats.timers.forget_all(group)

    def _item(self, group_id: str, node_id: int, may_be_empty: bool = False) -> Group | None:
        """The group, or None.

        Raises:
            CoordinatorError: its name is none, or the node does not coordinate it now.
        """
        if not group_id and not may_be_empty:
            raise CoordinatorError(INVALID_GROUP_ID)
        return self.manager.item(group_id, node_id)

    def _group(self, group_id: str, node_id: int) -> GroupMetadata | None:
        """The group whose members assign, or None; as `_item`."""
        group = self._item(group_id, node_id)
        # Members of the other kind are nobody here.
        return group if isinstance(group, GroupMetadata) else None

    # Groups that the broker assigns.

    def consumer_group_heartbeat(self, beat: MemberHeartbeat, node_id: int) -> HeartbeatResult:
        """Take a heartbeat of a member of a group that the broker assigns (KIP-848).

        Args:
            beat: what it says.
            node_id: the node that was asked.
        """
        result = self._heartbeats.heartbeat(beat, node_id)
        if result.error == NONE:
            self.offsets.watch()
        return result

    def consumer_group(self, group_id: str, node_id: int) -> ConsumerGroup:
        """A group that the broker assigns.

        Raises:
            CoordinatorError: there is none; or as `_item`.
        """
        group = self._item(group_id, node_id)
        if group is None:
            raise CoordinatorError(GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            text = f"Group {group_id} is not a consumer group."
            raise CoordinatorError(GROUP_ID_NOT_FOUND, text)
        return group

    # Joining.

    def join_group(self, joining: Joining, node_id: int, respond: JoinCallback) -> None:
        """Take a member in, or again: it is answered when the next generation begins, or at once.

        Args:
            joining: who it is.
            node_id: the node that was asked.
            respond: called once, without a lock, on any thread.
        """
        is_new = not joining.member_id
        try:
            item = self._item(joining.group_id, node_id)
            self._check_session_timeout(joining)
            if item is None and is_new:
                item = self.manager.item(joining.group_id, node_id, creates=True)
                self.offsets.watch()
            if item is None:
                raise CoordinatorError(UNKNOWN_MEMBER_ID)
            with item.lock:
                group = self._joined(item, is_new)
                if not self._has_room(group, joining.member_id):
                    member = group.members.get(joining.member_id)
                    if member is not None:
                        self._rebalancer.remove_member(group, member)
                    self._rebalancer.remove_pending(group, joining.member_id)
                    group.lock.defer(lambda: respond(JoinGroupResult(GROUP_MAX_SIZE_REACHED, "")))
                elif is_new:
                    self._join_new(group, joining, respond)
                else:
                    self._join_again(group, joining, respond)
                self._rebalancer.maybe_complete_join(group)
        except CoordinatorError as error:
            respond(JoinGroupResult(error.code, joining.member_id))

    def _joined(self, group: Group, is_new: bool) -> GroupMetadata:
        """The group that somebody joins, whose lock is held; one of the other kind gives way."""
        if isinstance(group, ConsumerGroup) and not group.is_dead:
            if not group.is_empty:
                raise CoordinatorError(INCONSISTENT_GROUP_PROTOCOL)
            if not is_new:
                raise CoordinatorError(UNKNOWN_MEMBER_ID)
        return self.manager.as_classic_group(group)

    def _check_session_timeout(self, joining: Joining) -> None:
        least = self._config.group_min_session_timeout_ms
        most = self._config.group_max_session_timeout_ms
        if not least <= joining.session_timeout_ms <= most:
            raise CoordinatorError(INVALID_SESSION_TIMEOUT)

    def _has_room(self, group: GroupMetadata, member_id: str) -> bool:
        """Whether a client may join a group of that many members."""
        most = self._config.group_max_size
        if group.is_in(EMPTY, DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(PREPARING):
            # Those that have not joined yet are not counted: some have to go.
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < most
        return member is not None or len(group.members) < most

    def _check_joining(self, group: GroupMetadata, joining: Joining) -> None:
        if group.is_in(DEAD):
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        if not group.supports_protocols(joining.protocol_type, joining.protocols):
            raise CoordinatorError(INCONSISTENT_GROUP_PROTOCOL)

    def _join_new(self, group: GroupMetadata, joining: Joining, respond: JoinCallback) -> None:
        """A client without a member id."""
        self._check_joining(group, joining)
        instance = joining.group_instance_id
        new_id = group.new_member_id(joining.client_id, instance)
        if instance is not None:
            old_id = group.static_member_id(instance)
            if old_id is not None:
                self._replace_static(group, joining, old_id, new_id, respond)
                return
        elif joining.requires_known_id:
            self._rebalancer.add_pending(group, new_id, joining.session_timeout_ms)
            group.lock.defer(lambda: respond(JoinGroupResult(MEMBER_ID_REQUIRED, new_id)))
            return
        self._add(group, joining, new_id, respond)

    def _join_again(self, group: GroupMetadata, joining: Joining, respond: JoinCallback) -> None:
        """A client with a member id, whether or not it was a member in this generation."""
        self._check_joining(group, joining)
        member_id = joining.member_id
        if member_id in group.pending_members and joining.group_instance_id is None:
            self._rebalancer.forget_pending(group, member_id)
            self._add(group, joining, member_id, respond)
            return
        code = group.refusal_of_member(member_id, joining.group_instance_id)
        if code != NONE:
            raise CoordinatorError(code)
        member = group.members[member_id]
        is_leader = member_id == group.leader_id
        is_unchanged = member.matches(joining.protocols)
        if group.is_in(EMPTY):
            raise CoordinatorError(UNKNOWN_MEMBER_ID)
        if is_unchanged and (group.is_in(COMPLETING) or (group.is_in(STABLE) and not is_leader)):
            # It may have missed the answer to its first request.
            tells_members = is_leader and group.is_in(COMPLETING)
            result = joined(group, member_id, tells_members=tells_members)
            group.lock.defer(lambda: respond(result))
            return
        self._update(group, member, joining, respond)
        self._rebalancer.prepare(group)

    def _add(
        self, group: GroupMetadata, joining: Joining, member_id: str, respond: JoinCallback
    ) -> None:
        member = joining.member(member_id)
        member.is_new = True
        if group.is_in(PREPARING) and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, respond)
        self._rebalancer.schedule_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalancer.prepare(group)

    def _update(
        self,
        group: GroupMetadata,
        member: MemberMetadata,
        joining: Joining,
        respond: JoinCallback | None,
    ) -> None:
        group.update(
            member,
            joining.protocols,
            joining.rebalance_timeout_ms,
            joining.session_timeout_ms,
            respond,
        )

    def _replace_static(
        self,
        group: GroupMetadata,
        joining: Joining,
        old_id: str,
        new_id: str,
        respond: JoinCallback,
    ) -> None:
        """An instance has restarted: it goes on where it was, if its protocols allow it."""
        old = group.members[old_id]
        old_leader = group.leader_id
        self._rebalancer.forget_heartbeat(old)
        member = group.replace_static_member(old_id, new_id)
        self._update(group, member, joining, respond)
        self._rebalancer.schedule_heartbeat(group, member)
        if group.is_in(COMPLETING):
            # The leader may assign to the old id already.
            self._rebalancer.prepare(group)
        elif group.is_in(STABLE) and group.select_protocol() != group.protocol_name:
            self._rebalancer.prepare(group)
        elif group.is_in(STABLE):
            code = self._store_group(group)
            if code != NONE:
                self._undo_replacement(group, old, member)
                group.answer_join(member, JoinGroupResult(code, ""))
                return
            # A leader that cannot skip the assignment must not know that it leads.
            skips = joining.supports_skipping and group.leader_id == new_id
            result = joined(
                group,
                new_id,
                tells_members=skips,
                leader_id=None if joining.supports_skipping else old_leader,
                skips_assignment=skips,
            )
            group.answer_join(member, result)

    def _undo_replacement(
        self, group: GroupMetadata, old: MemberMetadata, new: MemberMetadata
    ) -> None:
        """Give a place back that could not be written down; the new member still waits."""
        respond, new.awaiting_join = new.awaiting_join, None
        group.awaiting_join_count -= 1
        self._rebalancer.forget_heartbeat(new)
        restored = group.replace_static_member(new.member_id, old.member_id)
        group.update(
            restored, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms, None
        )
        self._rebalancer.schedule_heartbeat(group, restored)
        new.awaiting_join = respond
        group.awaiting_join_count += 1

    # Syncing.

    def sync_group(self, syncing: Syncing, node_id: int, respond: SyncCallback) -> None:
        """Tell a member its assignment: at once, or when the leader has assigned.

        Args:
            syncing: who it is.
            node_id: the node that was asked.
            respond: called once, without a lock, on any thread.
        """
        try:
            group = self._group(syncing.group_id, node_id)
            if group is None:
                raise CoordinatorError(UNKNOWN_MEMBER_ID)
            with group.lock:
                self._check_syncing(group, syncing)
                self._sync(group, group.members[syncing.member_id], syncing, respond)
        except CoordinatorError as error:
            code = error.code
            if code == COORDINATOR_LOAD_IN_PROGRESS:
                # The rebalance is lost: the member has to join again.
                code = REBALANCE_IN_PROGRESS
            respond(SyncGroupResult(code))

    def _check_syncing(self, group: GroupMetadata, syncing: Syncing) -> None:
        self._check_generation(
            group, syncing.member_id, syncing.group_instance_id, syncing.generation_id
        )
        kind, name = syncing.protocol_type, syncing.protocol_name
        if kind is not None and kind != group.protocol_type:
            raise CoordinatorError(INCONSISTENT_GROUP_PROTOCOL)
        if name is not None and name != group.protocol_name:
            raise CoordinatorError(INCONSISTENT_GROUP_PROTOCOL)
        if group.is_in(EMPTY):
            raise CoordinatorError(UNKNOWN_MEMBER_ID)
        if group.is_in(PREPARING):
            raise CoordinatorError(REBALANCE_IN_PROGRESS)

    def _check_generation(
        self,
        group: GroupMetadata,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
    ) -> None:
        if group.is_in(DEAD):
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        code = group.refusal_of_member(member_id, group_instance_id)
        if code != NONE:
            raise CoordinatorError(code)
        if generation_id != group.generation_id:
            raise CoordinatorError(ILLEGAL_GENERATION)

    def _sync(
        self,
        group: GroupMetadata,
        member: MemberMetadata,
        syncing: Syncing,
        respond: SyncCallback,
    ) -> None:
        if group.is_in(STABLE):
            self._rebalancer.synced(group, member.member_id)
            result = SyncGroupResult(
                NONE, group.protocol_type, group.protocol_name, member.assignment
            )
            group.lock.defer(lambda: respond(result))
            self._rebalancer.schedule_heartbeat(group, member)
            return
        group.await_sync(member, respond)
        self._rebalancer.synced(group, member.member_id)
        if member.member_id != group.leader_id:
            return
        for each in group.members.values():
            each.assignment = syncing.assignments.get(each.member_id, b"")
        code = self._store_group(group)
        if code == NONE:
            self._rebalancer.complete(group)
        else:
            self._rebalancer.refuse_syncs(group, code)
            self._rebalancer.prepare(group)

    # Staying and leaving.

    def heartbeat(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        node_id: int,
    ) -> int:
        """Note that a member lives; returns NONE, or what it has to know."""
        try:
            group = self._group(group_id, node_id)
            if group is None:
                return UNKNOWN_MEMBER_ID
            with group.lock:
                self._check_generation(group, member_id, group_instance_id, generation_id)
                if group.is_in(EMPTY):
                    return UNKNOWN_MEMBER_ID
                self._rebalancer.schedule_heartbeat(group, group.members[member_id])
                return REBALANCE_IN_PROGRESS if group.is_in(PREPARING) else NONE
        except CoordinatorError as error:
            # While the group is loaded its members are as good as known.
            return NONE if error.code == COORDINATOR_LOAD_IN_PROGRESS else error.code

    def leave_group(
        self, group_id: str, leaving: Sequence[Leaving], node_id: int
    ) -> tuple[int, list[int]]:
        """Take members out; returns a code for all and, if that is NONE, one for each of them."""
        try:
            group = self._item(group_id, node_id)
            if group is None:
                return NONE, [UNKNOWN_MEMBER_ID for _ in leaving]
            with group.lock:
                if group.is_dead:
                    return COORDINATOR_NOT_AVAILABLE, []
                if isinstance(group, ConsumerGroup):
                    return NONE, self._heartbeats.remove_members(group, leaving)
                group = self.manager.as_classic_group(group)
                return NONE, [self._leave(group, each) for each in leaving]
        except CoordinatorError as error:
            return error.code, []

    def _leave(self, group: GroupMetadata, leaving: Leaving) -> int:
        member_id, instance = leaving
        if not member_id:
            # An administrator removes a static member.
            found = None if instance is None else group.static_member_id(instance)
            if found is None:
                return UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id in group.pending_members:
            self._rebalancer.remove_pending(group, member_id)
            return NONE
        code = group.refusal_of_member(member_id, instance)
        if code == NONE:
            self._rebalancer.remove_member(group, group.members[member_id])
        return code

    # Telling.

    def list_groups(
        self, states: Collection[str], node_id: int, kinds: Collection[str] = ()
    ) -> tuple[int, list[GroupListing]]:
        """The groups of a node, and NONE or why not all of them are known.

        Args:
            states: only those in one of these, in any case; empty: all.
            node_id: the node that was asked.
            kinds: only those of one of these types, in any case; empty: all.
        """
        try:
            groups = self.manager.items(node_id)
        except CoordinatorError as error:
            return error.code, []
        states, kinds = {each.lower() for each in states}, {each.lower() for each in kinds}
        listed = []
        for group in groups:
            with group.lock:
                state = group.state_name
            if (not states or state.lower() in states) and (not kinds or group.kind in kinds):
                listed.append(GroupListing(group.group_id, group.protocol, state, group.kind))
        return NONE, listed

    def describe_group(self, group_id: str, node_id: int) -> tuple[int, GroupSummary]:
        """A group as it is now, and NONE or Kafka's code; one that is not there is dead."""
        try:
            group = self._item(group_id, node_id, may_be_empty=True)
        except CoordinatorError as error:
            return error.code, GroupSummary("")
        if group is None:
            return GROUP_ID_NOT_FOUND, GroupSummary(DEAD.value, why=f"Group {group_id} not found.")
        if not isinstance(group, GroupMetadata):
            why = f"Group {group_id} is not a classic group."
            return GROUP_ID_NOT_FOUND, GroupSummary(DEAD.value, why=why)
        with group.lock:
            return NONE, summary_of(group)

    def delete_group(self, group_id: str, node_id: int) -> int:
        """Delete a group without members, and its offsets; returns NONE or Kafka's code."""
        try:
            group = self._item(group_id, node_id, may_be_empty=True)
        except CoordinatorError as error:
            return error.code
        if group is None:
            return GROUP_ID_NOT_FOUND
        with group.lock:
            if group.is_dead:
                return GROUP_ID_NOT_FOUND
            if not group.is_empty:
                return NON_EMPTY_GROUP
            return self.offsets.delete_group(group)
