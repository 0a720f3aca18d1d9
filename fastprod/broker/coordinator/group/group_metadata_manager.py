"""GroupMetadataManager: the groups of a cluster, and the log that keeps them.

A group belongs to one partition of __consumer_offsets, and the node that leads the partition
coordinates the group.

Source: GroupMetadataManager and GroupCoordinatorService of Apache Kafka; contract B-E1, B-E2, B-E4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastprod._core.records.record_reader import RecordBatch
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import OFFSETS_TOPIC, Topics
from fastprod.broker.config import BrokerConfig
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
    PartitionedState,
    StateTopic,
    batches_of,
)
from fastprod.broker.log.record_batch import LogEntry
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
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


class GroupMetadataManager(PartitionedState[GroupMetadata]):
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
        loaded: Callable[[GroupMetadata], None],
        unloaded: Callable[[GroupMetadata, int], None],
    ) -> None:
        topic = StateTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
        )
        super().__init__(topic, topics, clock, worker, appended)
        self._loaded_callback = loaded
        self._unloaded_callback = unloaded

    def _new(self, key: str, partition: Partition) -> GroupMetadata:
        return GroupMetadata(key, partition, self._clock.time_ms())

    def _on_loaded(self, item: GroupMetadata) -> None:
        self._loaded_callback(item)

    def _on_unloaded(self, item: GroupMetadata, code: int) -> None:
        self._unloaded_callback(item, code)

    def _live_entries(self, item: GroupMetadata) -> list[LogEntry] | None:
        if item.offsets.has_pending:
            return None
        entries = offset_entries(item.group_id, item.offsets.committed)
        if item.stored_entry is not None:
            entries.append(item.stored_entry)
        return entries

    def _replay(self, partition: Partition) -> list[GroupMetadata]:
        reader = _GroupReader()
        for batch in batches_of(partition):
            reader.add(batch)
        now_ms = self._clock.time_ms()
        return [
            GroupMetadata.load(name, partition, now_ms, reader.stored.get(name), offsets)
            for name, offsets in reader.groups()
        ]

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
        if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
            return UNKNOWN_SERVER_ERROR
        return NOT_COORDINATOR if code == KAFKA_STORAGE_ERROR else code


class _GroupReader:
    """What the batches of one log say, one after the other."""

    def __init__(self) -> None:
        self.stored: dict[str, GroupMetadataValue] = {}
        self._offsets: dict[str, GroupOffsets] = {}

    def groups(self) -> list[tuple[str, GroupOffsets]]:
        """Names and offsets of all groups that there are."""
        with_offsets = (name for name, each in self._offsets.items() if not each.is_empty)
        names = dict.fromkeys([*self.stored, *with_offsets])
        return [(name, self._offsets.get(name, GroupOffsets())) for name in names]

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
            offsets = self._offsets.setdefault(what.group, GroupOffsets())
            place = what.topic, what.partition
            if value is None:
                offsets.remove(place)
            elif producer_id is None:
                offsets.commit({place: read_offset(value)})
            else:
                offsets.add_pending(producer_id, {place: read_offset(value)})
        elif isinstance(what, GroupMetadataKey):
            if value is None:
                self.stored.pop(what.group, None)
            else:
                self.stored[what.group] = read_group(value)
