"""ConsumerGroupHeartbeats: members that come, live and go, and what they are given to read.

Each heartbeat is one step: the member is noted, the group's epoch grows if it reads something else,
partitions are shared anew if the epoch has grown, and the member moves towards its share. The
records of the step are written as one batch, and then replayed.

Source: GroupMetadataManager of Apache Kafka 4.3 (consumerGroupHeartbeat and what it calls);
KIP-848, KIP-1082, KIP-1263; contract B-E3.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from fastprod.broker.cluster.topics import Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.consumer import consumer_group_records as records
from fastprod.broker.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    ResolvedRegularExpression,
)
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    NO_PARTITIONS,
    STATIC_LEAVE_EPOCH,
    Assignment,
    ConsumerGroupMember,
    MemberState,
    plain,
)
from fastprod.broker.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupRecord,
    member_tombstones,
)
from fastprod.broker.coordinator.group.consumer.current_assignment_builder import (
    Target,
    next_assignment,
)
from fastprod.broker.coordinator.group.consumer.member_heartbeat import (
    HeartbeatResult,
    MemberHeartbeat,
)
from fastprod.broker.coordinator.group.consumer.member_timers import MemberTimers
from fastprod.broker.coordinator.group.consumer.target_assignment_builder import (
    ASSIGNORS,
    build_target,
)
from fastprod.broker.coordinator.group.group_metadata_manager import GroupMetadataManager
from fastprod.broker.coordinator.group.member_metadata import Leaving
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION,
    NONE,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
)

_log = logging.getLogger(__name__)


class _Change:
    """What one heartbeat changes; nothing of it counts yet.

    Attributes:
        records: what is to be written down.
        resolved: what regular expressions match, after the change.
        looked_at: of which version of the cluster's topics that is, and when; None: as before.
        has_new_subscription: the member reads something else.
        bumps: the group's epoch grows.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self.records: list[ConsumerGroupRecord] = []
        self.resolved: Mapping[str, ResolvedRegularExpression] = group.resolved
        self.looked_at: tuple[int, int] | None = None
        self.has_new_subscription = False
        self.bumps = False


class _Share(NamedTuple):
    """What a member is to read."""

    epoch: int
    assignment: Assignment


class ConsumerGroupHeartbeats:
    """Handles the heartbeats of all groups that the broker assigns. Any thread.

    Args:
        config: of groups.
        topics: that they read.
        clock: for sessions and time-outs.
        purgatory: of the same clock.
        manager: knows the groups, and writes them down.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        clock: Clock,
        purgatory: DelayedOperationPurgatory,
        manager: GroupMetadataManager,
    ) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock
        self._manager = manager
        self.timers = MemberTimers(config, clock, purgatory, self._time_is_over)

    def heartbeat(self, beat: MemberHeartbeat, node_id: int) -> HeartbeatResult:
        """Take a heartbeat; returns what the member is told. Does not wait for other members."""
        try:
            beat.check()
            if beat.server_assignor is not None and beat.server_assignor not in ASSIGNORS:
                raise CoordinatorError(
                    UNSUPPORTED_ASSIGNOR,
                    f"ServerAssignor {beat.server_assignor} is not supported. Supported "
                    f"assignors: {', '.join(ASSIGNORS)}.",
                )
            what = "Group" if beat.leaves else "Consumer group"
            item = self._manager.group_for(beat.group_id, node_id, beat.joins, what)
            with item.lock:
                group = self._manager.as_consumer_group(item, creates=beat.joins)
                try:
                    return self._leave(group, beat) if beat.leaves else self._live(group, beat)
                finally:
                    self._manager.forget_unwritten(group)
        except CoordinatorError as error:
            return HeartbeatResult(error.code, error.text)

    # Members that live.

    def _live(self, group: ConsumerGroup, beat: MemberHeartbeat) -> HeartbeatResult:
        self._check_room(group, beat)
        change = _Change(group)
        # In version 0 the broker may name members.
        member_id = beat.member_id or str(uuid.uuid4())
        member = self._member(group, beat, member_id, change)
        updated = beat.heard_of(member)
        self._note(group, beat, member, updated, change)
        epoch = self._next_epoch(group, updated, change)
        share = self._share(group, updated, epoch, change)
        reconciled = self._reconcile(group, beat, updated, share, change)
        if change.records:
            before = group.static_member(beat.instance_id)
            self._write(group, change.records)
            if before is not None and before.member_id != member_id:
                self.timers.forget(group, before.member_id)
        if change.looked_at is not None:
            group.resolved_version, group.resolved_ms = change.looked_at
        self.timers.schedule_session(group, member_id)
        if reconciled != updated:
            self.timers.schedule_rebalance(group, reconciled)
        tells = beat.joins or beat.says_all or plain(reconciled.assigned) != plain(member.assigned)
        return HeartbeatResult(
            NONE,
            None,
            member_id,
            reconciled.member_epoch,
            self._config.group_consumer_heartbeat_interval_ms,
            reconciled.assigned if tells else None,
        )

    def _check_room(self, group: ConsumerGroup, beat: MemberHeartbeat) -> None:
        if beat.instance_id in group.static_members or beat.member_id in group.members:
            return
        most = self._config.group_consumer_max_size
        if len(group.members) >= most:
            raise CoordinatorError(
                GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def _member(
        self, group: ConsumerGroup, beat: MemberHeartbeat, member_id: str, change: _Change
    ) -> ConsumerGroupMember:
        """Who it is so far; a new instance has the place of the old one."""
        if beat.instance_id is None:
            if beat.joins:
                return group.members.get(member_id, ConsumerGroupMember(member_id))
            member = group.member(member_id)
            _check_epoch(member, beat)
            return member
        before = group.static_member(beat.instance_id)
        if not beat.joins:
            member = _checked_instance(before, beat)
            _check_epoch(member, beat)
            return member
        if before is None:
            return group.members.get(member_id, ConsumerGroupMember(member_id))
        if before.member_epoch != STATIC_LEAVE_EPOCH:
            raise CoordinatorError(
                UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {beat.instance_id} cannot join the "
                f"group because the instance id is owned by {before.member_id} member.",
            )
        member = before._replace(member_id=member_id, member_epoch=0, previous_epoch=0)
        name = group.group_id
        change.records += member_tombstones(name, before.member_id)
        change.records += [
            records.member_record(name, member),
            records.target_member_record(
                name, member_id, group.target_assignment.get(before.member_id, {})
            ),
            records.current_record(name, member),
        ]
        return member

    def _note(
        self,
        group: ConsumerGroup,
        beat: MemberHeartbeat,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        change: _Change,
    ) -> None:
        """Note what it says of itself, and see whether the group has to be assigned anew."""
        if updated != member:
            change.records.append(records.member_record(group.group_id, updated))
        has_new_names = updated.topic_names != member.topic_names
        has_new_regex = updated.topic_regex != member.topic_regex
        change.has_new_subscription = has_new_names or has_new_regex
        if has_new_regex:
            self._change_regex(group, member, updated, change)
        self._resolve(group, beat, updated, change)
        change.bumps |= change.has_new_subscription

    def _change_regex(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        change: _Change,
    ) -> None:
        # Here: most groups have none, and a broker is lighter without it.
        from fastprod.broker.coordinator.group.consumer.regular_expression import (  # noqa: PLC0415
            InvalidExpression,
            RegularExpression,
        )

        regex = updated.topic_regex
        if regex and not group.readers_of_regex(regex):
            try:
                RegularExpression(regex)
            except InvalidExpression as error:
                raise CoordinatorError(
                    INVALID_REGULAR_EXPRESSION,
                    f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
                ) from None
        if member.topic_regex and group.readers_of_regex(member.topic_regex) == 1:
            change.records.append(records.regex_tombstone(group.group_id, member.topic_regex))
            change.resolved = {
                each: found for each, found in change.resolved.items() if each != member.topic_regex
            }

    def _resolve(
        self,
        group: ConsumerGroup,
        beat: MemberHeartbeat,
        updated: ConsumerGroupMember,
        change: _Change,
    ) -> None:
        """See what the expressions match, if one is new, there are other topics, or it is time."""
        if not updated.topic_regex and not group.resolved:
            return
        # The version first: a topic that comes meanwhile is looked for the next time.
        version, now_ms = self._topics.version, self._clock.time_ms()
        is_fresh = (
            group.resolved_version == version
            and now_ms - group.resolved_ms < self._config.group_consumer_regex_refresh_interval_ms
        )
        missing = bool(updated.topic_regex) and updated.topic_regex not in change.resolved
        if is_fresh and not missing:
            return
        from fastprod.broker.coordinator.group.consumer import (  # noqa: PLC0415
            topic_regex_resolver,
        )

        regexes = {each.topic_regex for each in group.members_with(updated).values()} - {""}
        found = topic_regex_resolver.resolve(self._topics, regexes, beat.allows_topic, now_ms)
        for regex, each in found.items():
            before = change.resolved.get(regex)
            if before is None or before.topics != each.topics:
                change.records.append(records.regex_record(group.group_id, regex, *each))
                change.bumps = True
        change.resolved = found
        change.looked_at = version, now_ms

    def _next_epoch(
        self, group: ConsumerGroup, updated: ConsumerGroupMember, change: _Change
    ) -> int:
        """The group's epoch after this: it grows when members, or what they read, change."""
        if change.bumps:
            members = group.members_with(updated).values()
            names: Collection[str] = frozenset().union(
                *(group.names_of(each, change.resolved) for each in members)
            )
        else:
            names = group.topic_names
        metadata_hash = group.hash_of(names)
        if not change.bumps and metadata_hash == group.metadata_hash:
            return group.epoch
        epoch = group.epoch + 1
        change.records.append(records.group_record(group.group_id, epoch, metadata_hash))
        return epoch

    def _share(
        self, group: ConsumerGroup, updated: ConsumerGroupMember, epoch: int, change: _Change
    ) -> _Share:
        """What the member is to read, shared anew if the epoch has grown, and it is time."""
        now_ms = self._clock.time_ms()
        due_ms = group.assignment_timestamp_ms + self._config.group_consumer_assignment_interval_ms
        if epoch <= group.assignment_epoch or (group.assignment_timestamp_ms and now_ms < due_ms):
            return _Share(group.assignment_epoch, group.target_of(updated))
        members = group.members_with(updated)
        target = build_target(group, self._topics, members, change.resolved, epoch, now_ms)
        change.records += target.records
        return _Share(epoch, target.assignments[updated.member_id])

    def _reconcile(
        self,
        group: ConsumerGroup,
        beat: MemberHeartbeat,
        updated: ConsumerGroupMember,
        share: _Share,
        change: _Change,
    ) -> ConsumerGroupMember:
        """The member after its next step towards its share."""
        if not change.has_new_subscription and updated.is_reconciled_to(share.epoch):
            return updated
        topic_ids = group.ids_of(group.names_of(updated, change.resolved))
        target = Target(share.epoch, share.assignment, topic_ids, group.owners)
        reconciled = next_assignment(updated, target, beat.owned, change.has_new_subscription)
        if reconciled != updated:
            change.records.append(records.current_record(group.group_id, reconciled))
        return reconciled

    # Members that go.

    def _leave(self, group: ConsumerGroup, beat: MemberHeartbeat) -> HeartbeatResult:
        told = HeartbeatResult(member_id=beat.member_id, member_epoch=beat.member_epoch)
        if beat.instance_id is None:
            member = group.member(beat.member_id)
        else:
            member = _checked_instance(group.static_member(beat.instance_id), beat)
        if beat.member_epoch == STATIC_LEAVE_EPOCH:
            away = member._replace(
                member_epoch=STATIC_LEAVE_EPOCH, pending_revocation=NO_PARTITIONS
            )
            self._write(group, [records.current_record(group.group_id, away)])
            return told
        self._remove(group, [member])
        return told

    def remove_members(self, group: ConsumerGroup, leaving: Sequence[Leaving]) -> list[int]:
        """Take members out that an administrator names; returns NONE or a code for each.

        The group's lock is held.

        Raises:
            CoordinatorError: that cannot be written down.
        """
        found: dict[str, ConsumerGroupMember] = {}
        codes = []
        for member_id, instance in leaving:
            member = group.members.get(member_id) if instance is None else None
            code = NONE
            if instance is not None:
                member = group.static_member(instance)
                if member is not None and member_id not in ("", member.member_id):
                    code = FENCED_INSTANCE_ID
            if member is None:
                code = UNKNOWN_MEMBER_ID
            elif code == NONE:
                found[member.member_id] = member
            codes.append(code)
        if found:
            self._remove(group, list(found.values()))
        return codes

    def _remove(self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember]) -> None:
        """Take members out; the next heartbeat of another one shares what they had."""
        name = group.group_id
        changes = [each for one in members for each in member_tombstones(name, one.member_id)]
        others = [each for each in group.members.values() if each not in members]
        unused = {each.topic_regex for each in members} - {each.topic_regex for each in others}
        changes += [records.regex_tombstone(name, each) for each in sorted(unused - {""})]
        names = frozenset().union(*map(group.names_of, others))
        changes.append(records.group_record(name, group.epoch + 1, group.hash_of(names)))
        self._write(group, changes)
        for each in members:
            self.timers.forget(group, each.member_id)

    def _time_is_over(self, group: ConsumerGroup, member_id: str, epoch: int | None) -> bool:
        """Take out a member that is silent, or does not give up what it should.

        The group's lock is held.

        Args:
            group: its group.
            member_id: which.
            epoch: that it had to leave in time; None: nothing was heard of it.

        Returns:
            Whether that is done with; else it is to be tried again.
        """
        member = group.members.get(member_id)
        if member is None or epoch not in (None, member.member_epoch):
            return True
        _log.info(
            "%r: %s is taken out: %s",
            group,
            member_id,
            "nothing was heard of it" if epoch is None else f"it has not left epoch {epoch}",
        )
        try:
            self._remove(group, [member])
        except CoordinatorError as error:
            _log.warning("%r: %s stays: error %d", group, member_id, error.code)
            return False
        return True

    def _write(self, group: ConsumerGroup, changes: Sequence[ConsumerGroupRecord]) -> None:
        """Write records down, and be what they say.

        Raises:
            CoordinatorError: they cannot be written; nothing has changed.
        """
        if group.is_dead:
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        self._manager.write(group, changes)
        for each in changes:
            group.replay(each)

    # Coordinators that come and go.

    def group_loaded(self, group: ConsumerGroup) -> None:
        """Another coordinator has looked after it so far: sessions begin anew."""
        for member in group.members.values():
            self.timers.schedule_session(group, member.member_id)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.timers.schedule_rebalance(group, member)


def _checked_instance(
    member: ConsumerGroupMember | None, beat: MemberHeartbeat
) -> ConsumerGroupMember:
    """The member of an instance, which the heartbeat is of."""
    if member is None:
        text = f"Instance id {beat.instance_id} is unknown."
        raise CoordinatorError(UNKNOWN_MEMBER_ID, text)
    if member.member_id != beat.member_id:
        raise CoordinatorError(
            FENCED_INSTANCE_ID,
            f"Static member {beat.member_id} with instance id {beat.instance_id} was fenced by "
            f"member {member.member_id}.",
        )
    return member


def _check_epoch(member: ConsumerGroupMember, beat: MemberHeartbeat) -> None:
    """See whether a member is where it is thought to be, or one step behind."""
    theirs, ours = beat.member_epoch, member.member_epoch
    if theirs == ours:
        return
    # The answer with its new epoch may have been lost.
    is_behind = theirs < ours and theirs == member.previous_epoch and beat.owned is not None
    if is_behind and member.owns_all(beat.owned or ()):
        return
    raise CoordinatorError(
        FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if theirs > ours else 'smaller'} member epoch "
        f"({theirs}) than the one known by the group coordinator ({ours}). The member must abandon "
        f"all its partitions and rejoin.",
    )
