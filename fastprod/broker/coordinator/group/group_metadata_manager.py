"""GroupMetadataManager: the groups of a cluster, and the log that keeps them.

A group belongs to one partition of __consumer_offsets, and the node that leads the partition
coordinates the group.

Source: GroupMetadataManager and GroupCoordinatorService of Apache Kafka; contract B-E1, B-E2, B-E4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from fastprod._core.records.record_reader import RecordBatch
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import OFFSETS_TOPIC, Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.consumer.consumer_group import FIRST_EPOCH, ConsumerGroup
from fastprod.broker.coordinator.group.consumer.consumer_group_records import (
    ConsumerGroupRecord,
    read_record,
)
from fastprod.broker.coordinator.group.group import Group
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.group.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    group_entry,
    offset_entries,
    read_group,
    read_key,
    read_offset,
)
from fastprod.broker.coordinator.partitioned_state import (
    CoordinatorError,
    PartitionedState,
    StateTopic,
    batches_of,
)
from fastprod.broker.log.record_batch import LogEntry
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_COORDINATOR,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
)
from fastprod.protocol.schema import SchemaError

_log = logging.getLogger(__name__)

_COMMIT = 1

_CODES = {
    KAFKA_STORAGE_ERROR: NOT_COORDINATOR,
    MESSAGE_TOO_LARGE: UNKNOWN_SERVER_ERROR,
    RECORD_LIST_TOO_LARGE: UNKNOWN_SERVER_ERROR,
}
"""What members are told in place of what the log says."""


class GroupMetadataManager(PartitionedState[Group]):
    """Finds, loads, stores and forgets groups; see `PartitionedState`.

    Args:
        config: of the topic.
        topics: where it is.
        clock: the broker's.
        worker: where long logs are read and written.
        appended: called with a partition that has grown, without a lock.
        loaded: called with each group that was read, its lock held.
        unloaded: called with each group of another coordinator, its lock held, and the error for
            those who wait in it; it leaves the group dead.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        clock: Clock,
        worker: OverflowWorker,
        appended: Callable[[Partition], object],
        loaded: Callable[[Group], None],
        unloaded: Callable[[Group, int], None],
    ) -> None:
        topic = StateTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
        )
        super().__init__(topic, topics, clock, worker, appended)
        self._loaded_callback = loaded
        self._unloaded_callback = unloaded

    def _new(self, key: str, partition: Partition) -> Group:
        return GroupMetadata(key, partition, self._clock.time_ms())

    def _on_loaded(self, item: Group) -> None:
        self._loaded_callback(item)

    def _on_unloaded(self, item: Group, code: int) -> None:
        self._unloaded_callback(item, code)

    def unload(self, group: Group, code: int) -> None:
        """Have a group be kept no more; those who wait in it get `code`. Its lock is held."""
        self._unloaded_callback(group, code)

    def _live_entries(self, item: Group) -> list[LogEntry] | None:
        if item.offsets.has_pending:
            return None
        return offset_entries(item.group_id, item.offsets.committed) + item.live_entries()

    def _replay(self, partition: Partition) -> list[Group]:
        reader = _GroupReader(partition, self._topics, self._clock.time_ms())
        for batch in batches_of(partition):
            reader.add(batch)
        return list(reader.groups())

    # Groups that the broker assigns, and others in their place.

    def group_for(self, group_id: str, node_id: int, creates: bool, what: str) -> Group:
        """The group of that name, made as one that the broker assigns if there is none.

        Args:
            group_id: its name.
            node_id: the node that was asked.
            creates: make it if there is none.
            what: the error says that there is no such thing.

        Raises:
            CoordinatorError: there is none; or as `item`.
        """

        def new(key: str, partition: Partition) -> Group:
            return ConsumerGroup(key, partition, self._topics, GroupOffsets())

        group = self.item(group_id, node_id, creates, new)
        if group is None:
            raise CoordinatorError(GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
        return group

    def as_consumer_group(self, group: Group, creates: bool) -> ConsumerGroup:
        """A group as one that the broker assigns; its lock is held, and is the other one's, too.

        Args:
            group: one without members may be any.
            creates: put another one in its place, if it is of the other kind.

        Raises:
            CoordinatorError: it is of the other kind, and has members.
        """
        if group.is_dead:
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        if isinstance(group, ConsumerGroup):
            return group
        group_id = group.group_id
        if not creates:
            text = f"Group {group_id} is not a consumer group."
            raise CoordinatorError(GROUP_ID_NOT_FOUND, text)
        if not group.is_empty:
            text = (
                f"Cannot upgrade classic group {group_id} to consumer group because online upgrade "
                f"is disabled."
            )
            raise CoordinatorError(GROUP_ID_NOT_FOUND, text)
        fresh = ConsumerGroup(group_id, group.partition, self._topics, group.offsets, group.lock)
        self._put_in_place(group, fresh)
        return fresh

    def as_classic_group(self, group: Group) -> GroupMetadata:
        """A group as one whose members assign; as above, and it has no members.

        Raises:
            CoordinatorError: it is kept no more, or cannot be written down.
        """
        if group.is_dead:
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        if isinstance(group, GroupMetadata):
            return group
        now_ms = self._clock.time_ms()
        fresh = GroupMetadata(group.group_id, group.partition, now_ms, group.offsets, group.lock)
        self._put_in_place(group, fresh)
        return fresh

    def _put_in_place(self, group: Group, fresh: Group) -> None:
        entries = group.tombstones()
        code = self.append(group, entries) if entries else NONE
        if code != NONE:
            raise CoordinatorError(_CODES.get(code, code))
        self.replace(group, fresh)
        self.unload(group, COORDINATOR_NOT_AVAILABLE)

    def forget_unwritten(self, group: ConsumerGroup) -> None:
        """Forget a group that nobody came to be in; its lock is held."""
        if not group.members and group.epoch == FIRST_EPOCH and group.offsets.is_empty:
            group.die()
            self.forget(group)

    def write(self, group: ConsumerGroup, records: Sequence[ConsumerGroupRecord]) -> None:
        """Write records down as one batch; the group's lock is held.

        Raises:
            CoordinatorError: they cannot be written.
        """
        try:
            entries = [each.entry() for each in records]
        except SchemaError as error:
            _log.error("%r cannot be written down: %s", group, error)
            raise CoordinatorError(UNKNOWN_SERVER_ERROR) from None
        code = self.append(group, entries)
        if code != NONE:
            raise CoordinatorError(_CODES.get(code, code))

    def store_group(self, group: GroupMetadata) -> int:
        """Write a group's generation down; its lock is held. Returns NONE or Kafka's code."""
        try:
            entry = group_entry(group.group_id, group.stored())
        except SchemaError as error:
            _log.error("group %r cannot be written down: %s", group.group_id, error)
            return UNKNOWN_SERVER_ERROR
        code = self.append(group, [entry])
        if code == NONE:
            group.stored_entry = entry
        return _CODES.get(code, code)


class _GroupReader:
    """What the batches of one log say, one after the other.

    Args:
        partition: whose log it is.
        topics: that groups read.
        now_ms: by the broker's clock.
    """

    def __init__(self, partition: Partition, topics: Topics, now_ms: int) -> None:
        self._partition = partition
        self._topics = topics
        self._now_ms = now_ms
        self._stored: dict[str, GroupMetadataValue] = {}
        self._assigned: dict[str, ConsumerGroup] = {}
        self._offsets: dict[str, GroupOffsets] = {}

    def groups(self) -> Iterator[Group]:
        """All groups that there are."""
        yield from self._assigned.values()
        with_offsets = (name for name, each in self._offsets.items() if not each.is_empty)
        for name in dict.fromkeys([*self._stored, *with_offsets]):
            if name not in self._assigned:
                stored, offsets = self._stored.get(name), self._offsets_of(name)
                yield GroupMetadata.load(name, self._partition, self._now_ms, stored, offsets)

    def _offsets_of(self, name: str) -> GroupOffsets:
        return self._offsets.setdefault(name, GroupOffsets())

    def add(self, batch: RecordBatch) -> None:
        """Take what a batch says; a marker decides about all groups."""
        if batch.is_control:
            marker = batch.end_marker()
            if marker is not None:
                for each in self._offsets.values():
                    each.end_transaction(batch.producer_id, marker.kind == _COMMIT)
            return
        producer_id = batch.producer_id if batch.is_transactional else None
        for record in batch.records():
            self._add(record.key or b"", record.value, producer_id)

    def _add(self, key: bytes, value: bytes | None, producer_id: int | None) -> None:
        what = read_key(key)
        if isinstance(what, OffsetCommitKey):
            offsets = self._offsets_of(what.group)
            place = what.topic, what.partition
            if value is None:
                offsets.remove(place)
            elif producer_id is None:
                offsets.commit({place: read_offset(value)})
            else:
                offsets.add_pending(producer_id, {place: read_offset(value)})
        elif isinstance(what, GroupMetadataKey):
            if value is None:
                self._stored.pop(what.group, None)
            else:
                self._stored[what.group] = read_group(value)
        elif what is None:
            record = read_record(key, value)
            if record is not None:
                self._replay(record)

    def _replay(self, record: ConsumerGroupRecord) -> None:
        name = record.key.group_id
        group = self._assigned.get(name)
        if group is None:
            if record.value is None:
                # Of a group that is gone.
                return
            offsets = self._offsets_of(name)
            group = ConsumerGroup(name, self._partition, self._topics, offsets)
            self._assigned[name] = group
        group.replay(record)
        if group.is_dead:
            del self._assigned[name]
