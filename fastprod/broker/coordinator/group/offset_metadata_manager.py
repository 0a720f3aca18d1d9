"""OffsetMetadataManager: how far groups have read: committed, fetched, deleted, expired.

Source: GroupCoordinator and OffsetMetadataManager of Apache Kafka; KIP-211; contract B-E2.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from functools import partial

from fastprod.broker.cluster.partition import AppendedAt, Partition
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.delayed_call import DelayedCall
from fastprod.broker.coordinator.group.group import Committing, Group
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from fastprod.broker.coordinator.group.group_metadata_manager import GroupMetadataManager
from fastprod.broker.coordinator.group.group_offsets import UNSTABLE
from fastprod.broker.coordinator.group.group_records import (
    OffsetAndMetadata,
    TopicPartition,
    offset_entries,
    offset_entry,
)
from fastprod.broker.coordinator.group.rebalance import Rebalancer
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INVALID_COMMIT_OFFSET_SIZE,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

_log = logging.getLogger(__name__)

_MS_PER_MINUTE = 60_000
# After what is to be forgotten could not be written down.
_FORGET_AGAIN_MS = 1000

_CODES = {
    MESSAGE_TOO_LARGE: INVALID_COMMIT_OFFSET_SIZE,
    RECORD_LIST_TOO_LARGE: INVALID_COMMIT_OFFSET_SIZE,
    KAFKA_STORAGE_ERROR: NOT_COORDINATOR,
}
"""What a client is told in place of what the log says."""


class OffsetMetadataManager:
    """The offsets of all groups. Any thread.

    Offsets of transactions are kept beside the committed ones, by producer id, until a marker
    decides.

    Args:
        config: how long offsets are kept, how much may be noted with one.
        clock: the broker's.
        purgatory: of the same clock.
        manager: knows the groups.
        rebalancer: told of members that commit.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        purgatory: DelayedOperationPurgatory,
        manager: GroupMetadataManager,
        rebalancer: Rebalancer,
    ) -> None:
        self._config = config
        self._clock = clock
        self._purgatory = purgatory
        self._manager = manager
        self._rebalancer = rebalancer
        self._lock = threading.Lock()
        self._is_watching = False

    # Committing and fetching.

    def commit(self, committing: Committing, node_id: int) -> dict[TopicPartition, int]:
        """Write offsets down; returns NONE or Kafka's code for each partition."""
        try:
            group = self._group_of(committing, node_id)
            with group.lock:
                if group.is_dead:
                    # Another node may have read all that there was.
                    raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
                refused = group.check_commit(committing)
                if isinstance(group, GroupMetadata) and not committing.is_transactional:
                    member = group.members.get(committing.member_id)
                    if member is not None:
                        self._rebalancer.schedule_heartbeat(group, member)
                return self._store(group, committing, refused)
        except CoordinatorError as error:
            return dict.fromkeys(committing.offsets, error.code)

    def _group_of(self, committing: Committing, node_id: int) -> Group:
        """The group, made for somebody who keeps nothing but offsets in it.

        Raises:
            CoordinatorError: there is none, or it is not coordinated here.
        """
        is_simple = committing.generation_id < 0
        group = self._manager.item(committing.group_id, node_id, creates=is_simple)
        if group is None:
            missing = GROUP_ID_NOT_FOUND if committing.knows_epochs else ILLEGAL_GENERATION
            raise CoordinatorError(missing)
        self.watch()
        return group

    def _store(
        self, group: Group, committing: Committing, refused: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        most, codes = self._config.offset_metadata_max_bytes, dict(refused)
        fitting = {}
        for place, each in committing.offsets.items():
            if place in refused:
                continue
            if len(each.metadata) > most:
                codes[place] = OFFSET_METADATA_TOO_LARGE
            elif committing.is_gone(place):
                # `topics_deleted` may have been here: a new topic of that name would begin there.
                codes[place] = UNKNOWN_TOPIC_OR_PARTITION
            else:
                fitting[place] = each
        code = NONE
        if fitting:
            entries = offset_entries(group.group_id, fitting)
            code = self._manager.append(group, entries, committing.producer)
        if code == NONE and not committing.is_transactional:
            group.offsets.commit(fitting)
        elif code == NONE and fitting:
            group.offsets.add_pending(committing.producer.id, fitting)
        code = _CODES.get(code, code)
        return {place: codes.get(place, code) for place in committing.offsets}

    def end_transaction(self, partition: Partition, marker: EndTransactionMarker) -> AppendedAt:
        """End a transaction in a partition of __consumer_offsets, and decide about its offsets.

        The producer's transaction is locked by the coordinator, so that no offset of it comes now.

        Returns:
            As `Partition.append_marker`.

        Raises:
            CoordinatorError: the groups of the partition are being loaded; the marker may be
                written, and is to be written once more.
            LogError: the log refuses the marker.
            PartitionDeleted: the broker stops.
        """
        # First: whoever reads the log now would miss the marker.
        self._manager.items_in(partition)
        appended = partition.append_marker(marker)
        # Again: another node may have begun to read it meanwhile, without the marker.
        for group in self._manager.items_in(partition):
            with group.lock:
                if group.offsets.end_transaction(marker.producer.id, marker.is_commit):
                    self.watch()
        return appended

    def fetch(
        self,
        group_id: str,
        places: Collection[TopicPartition] | None,
        node_id: int,
        requires_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> tuple[int, dict[TopicPartition, OffsetAndMetadata]]:
        """What a group has committed, and NONE or Kafka's code.

        Args:
            group_id: its name.
            places: of which partitions; None: of all. Those without an offset are left out.
            node_id: the node that was asked.
            requires_stable: have UNSTABLE where an open transaction says something (KIP-447).
            member_id: who asks; None: nobody in particular.
            member_epoch: its epoch, in groups that the broker assigns (KIP-848).
        """
        try:
            group = self._manager.item(group_id, node_id)
        except CoordinatorError as error:
            return error.code, {}
        if group is None:
            return NONE, {}
        with group.lock:
            if group.is_dead:
                # Another node may have it: who hears of no offsets begins somewhere else.
                return NOT_COORDINATOR, {}
            try:
                group.check_fetch(member_id, member_epoch)
            except CoordinatorError as error:
                return error.code, {}
            offsets = group.offsets
            found = {
                place: offsets.committed[place]
                for place in (offsets.committed if places is None else places)
                if place in offsets.committed
            }
            if requires_stable and offsets.has_pending:
                asked = found if places is None else places
                found.update({place: UNSTABLE for place in [*asked] if offsets.is_pending(place)})
            return NONE, found

    # Deleting.

    def delete_offsets(
        self, group_id: str, places: Collection[TopicPartition], node_id: int
    ) -> tuple[int, dict[TopicPartition, int]]:
        """Forget offsets of partitions that nobody in the group reads.

        Returns:
            NONE or Kafka's code for all, and if that is NONE one for each partition.
        """
        try:
            group = self._manager.item(group_id, node_id)
        except CoordinatorError as error:
            return error.code, {}
        if group is None:
            return GROUP_ID_NOT_FOUND, {}
        with group.lock:
            if group.is_dead:
                return GROUP_ID_NOT_FOUND, {}
            if not group.is_empty and not group.is_consumer_group:
                return NON_EMPTY_GROUP, {}
            is_empty = group.is_empty
            codes = {
                place: NONE
                if is_empty or not group.is_subscribed_to(place[0])
                else GROUP_SUBSCRIBED_TO_TOPIC
                for place in places
            }
            free = [place for place, code in codes.items() if code == NONE]
            code = self._remove(group, free)
            return NONE, {place: code if each == NONE else each for place, each in codes.items()}

    def delete_group(self, group: Group) -> int:
        """Delete a group that nobody is in, with its offsets; its lock is held.

        Returns NONE, or Kafka's code; the group stays then.
        """
        entries = [offset_entry(group.group_id, place, None) for place in group.offsets.places()]
        entries += group.tombstones()
        code = self._manager.append_all(group, entries)
        if code != NONE:
            return _CODES.get(code, code)
        group.offsets.clear()
        self._manager.unload(group, UNKNOWN_MEMBER_ID)
        self._manager.forget(group)
        return NONE

    def topics_deleted(self, names: Collection[str], may_come_again: bool = True) -> None:
        """Forget the offsets of topics that are gone, so that new ones do not get them (B-D4.3).

        Args:
            names: of the topics.
            may_come_again: it is done again, in a moment, if groups are being loaded.
        """
        again = (lambda: self.topics_deleted(names, False)) if may_come_again else None
        deleted_ms = self._clock.time_ms()
        for group in self._manager.loaded_items(again):
            with group.lock:
                places = [each for each in group.offsets.places() if each[0] in names]
                if places:
                    self._forget(group, places, deleted_ms)

    def _forget(self, group: Group, places: Sequence[TopicPartition], deleted_ms: int) -> None:
        """Forget offsets of a topic that is gone; the group's lock is held.

        At once, even if that cannot be written down: a new topic of that name would begin there.
        The log is told again later, for the next coordinator reads it.
        """
        code = COORDINATOR_NOT_AVAILABLE
        if not group.is_dead:
            entries = [offset_entry(group.group_id, place, None) for place in places]
            code = self._manager.append_all(group, entries)
        for place in places:
            group.offsets.remove(place)
        if code != NONE:
            self._forget_later(group.group_id, places, deleted_ms)

    def _forget_later(
        self, group_id: str, places: Sequence[TopicPartition], deleted_ms: int
    ) -> None:
        again = partial(self._forget_again, group_id, places, deleted_ms)
        operation = DelayedCall(_FORGET_AGAIN_MS, again)
        self._purgatory.complete_or_watch(operation, (operation,))

    def _forget_again(
        self, group_id: str, places: Sequence[TopicPartition], deleted_ms: int
    ) -> None:
        """Forget what was committed before the topic was deleted, not what came since."""
        try:
            group = self._manager.item(group_id, None)
        except CoordinatorError:
            self._forget_later(group_id, places, deleted_ms)
            return
        if group is None:
            return
        with group.lock:
            old = [each for each in places if group.offsets.newest_ms(each) <= deleted_ms]
            if old:
                self._forget(group, old, deleted_ms)

    def _remove(self, group: Group, places: Sequence[TopicPartition]) -> int:
        """Forget offsets; the group's lock is held."""
        known = [place for place in places if place in group.offsets]
        entries = [offset_entry(group.group_id, place, None) for place in known]
        code = self._manager.append_all(group, entries)
        if code == NONE:
            for place in known:
                group.offsets.remove(place)
        return _CODES.get(code, code)

    # Expiring.

    def watch(self) -> None:
        """Look for old offsets from time to time; the lock of a group may be held."""
        if self._is_watching:
            return
        with self._lock:
            if self._is_watching:
                return
            self._is_watching = True
        operation = DelayedCall(
            self._config.offsets_retention_check_interval_ms, self.expire_and_watch
        )
        self._purgatory.complete_or_watch(operation, (operation,))

    def expire_and_watch(self) -> None:
        """Look now, and later again if there are groups left."""
        self._is_watching = False
        self.expire()
        if self._manager.all_items():
            self.watch()

    def expire(self) -> None:
        """Forget offsets that were kept long enough, and groups without members and offsets."""
        now_ms = self._clock.time_ms()
        retention_ms = self._config.offsets_retention_minutes * _MS_PER_MINUTE
        for group in self._manager.all_items():
            with group.lock:
                if group.is_dead:
                    continue
                code = self._remove(group, group.expired_offsets(now_ms, retention_ms))
                if code != NONE:
                    _log.warning("%r: its old offsets stay: error %d", group, code)
                elif group.is_unused and group.offsets.is_empty:
                    self.delete_group(group)
