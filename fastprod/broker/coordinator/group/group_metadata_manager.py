"""GroupMetadataManager: the groups of a cluster, and the log that keeps them.

A group belongs to one partition of __consumer_offsets, and the node that leads the partition
coordinates the group. When another node takes over, what the log has of its groups is read again.

Source: GroupMetadataManager and GroupCoordinatorService of Apache Kafka; contract B-E1, B-E2.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fastprod._core.log.batch_validator import InvalidBatch
from fastprod._core.records.record_reader import read_batches
from fastprod.broker.cluster.partition import NO_NODE, Partition, PartitionDeleted
from fastprod.broker.cluster.topics import OFFSETS_TOPIC, Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.group_metadata import GroupError, GroupMetadata, GroupState
from fastprod.broker.coordinator.group.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetAndMetadata,
    OffsetCommitKey,
    TopicPartition,
    group_entry,
    offset_entries,
    read_group,
    read_key,
    read_offset,
)
from fastprod.broker.coordinator.record_batch import LogEntry, encode_batch, split
from fastprod.broker.log.log import LogError
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_COORDINATOR,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
)
from fastprod.protocol.schema import SchemaError

_log = logging.getLogger(__name__)

# What a network thread may read of a log at once: some ten milliseconds.
_QUICK_BYTES: Final = 256 * 1024
_READ_BYTES: Final = 1024 * 1024
_LARGEST_BATCH_BYTES: Final = 2**31 - 1
# Of one batch of what is written anew.
_PART_BYTES: Final = 512 * 1024
# A log is written anew when it has this size, and several times that of what counts in it.
_REWRITE_BYTES: Final = 8 * 1024 * 1024
_REWRITE_FACTOR: Final = 4
_SEGMENT_BYTES: Final = 2 * 1024 * 1024

OFFSETS_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(_SEGMENT_BYTES),
}
"""Settings of __consumer_offsets. Kafka compacts it; here it is written anew from time to time."""


def partition_for(group_id: str, partition_count: int) -> int:
    """Which partition of __consumer_offsets keeps a group: by the hash that Java has of its id."""
    code = 0
    utf16 = group_id.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(utf16), 2):
        code = (code * 31 + (utf16[at] << 8 | utf16[at + 1])) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % partition_count


class _LoadedPartition:
    """The groups of one partition, as of one leader epoch. Guarded by the manager's lock.

    Attributes:
        groups: by id; those that are dead are taken out.
        is_loading: the log is being read.
        is_rewriting: it is being written anew.
        live_bytes: what that took the last time.
    """

    __slots__ = ("groups", "is_loading", "is_rewriting", "leader_epoch", "live_bytes", "partition")

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.groups: dict[str, GroupMetadata] = {}
        self.is_loading = True
        self.is_rewriting = False
        self.live_bytes = 0


class GroupMetadataManager:
    """Finds, loads, stores and forgets groups. Any thread.

    A group's lock may be held around a call where its text says so, and may be taken by every other
    one. The manager's own lock is taken inside of those, and never around one.

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
        self._config = config
        self._topics = topics
        self._clock = clock
        self._worker = worker
        self._appended = appended
        self._on_loaded = loaded
        self._on_unloaded = unloaded
        self._lock = threading.Lock()
        self._loaded: dict[int, _LoadedPartition] = {}
        self._is_closed = False

    # Who coordinates.

    def make_topic(self) -> int:
        """Make __consumer_offsets unless it is there; returns the number of its partitions.

        Blocks while other topics are made.

        Raises:
            TopicError: it cannot be made; or the broker is stopped.
            OSError: a folder cannot be made.
        """
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            topic = self._topics.create_internal(
                OFFSETS_TOPIC,
                self._config.offsets_topic_num_partitions,
                self._config.offsets_topic_replication_factor,
                OFFSETS_TOPIC_CONFIG,
            )
        return len(topic.partitions)

    @property
    def has_topic(self) -> bool:
        """Whether anybody has asked for a group."""
        return self._topics.get(OFFSETS_TOPIC) is not None

    def leader_of(self, group_id: str) -> int:
        """The node that coordinates a group; -1: none does now."""
        partition = self._partition(group_id)
        return NO_NODE if partition is None else partition.leader

    def group(self, group_id: str, node_id: int, creates: bool = False) -> GroupMetadata | None:
        """A group that a node coordinates; None: there is no such group.

        Args:
            group_id: its name.
            node_id: the node that was asked.
            creates: make the group if there is none.

        Raises:
            GroupError: the node does not coordinate it, or not yet.
        """
        partition = self._partition(group_id)
        if partition is None:
            raise GroupError(COORDINATOR_NOT_AVAILABLE)
        if partition.leader != node_id:
            raise GroupError(NOT_COORDINATOR)
        loaded = self._load(partition)
        group = loaded.groups.get(group_id)
        if group is not None or not creates:
            return group
        with self._lock:
            # Of an older epoch: nobody would unload what came to it now.
            if loaded.leader_epoch != partition.leader_epoch:
                raise GroupError(NOT_COORDINATOR)
            if group_id not in loaded.groups:
                now_ms = self._clock.time_ms()
                loaded.groups[group_id] = GroupMetadata(group_id, partition, now_ms)
            return loaded.groups[group_id]

    def groups(self, node_id: int) -> list[GroupMetadata]:
        """All groups that a node coordinates.

        Raises:
            GroupError: some are being loaded.
        """
        topic = self._topics.get(OFFSETS_TOPIC)
        mine = [each for each in topic.partitions if each.leader == node_id] if topic else []
        used = [each for each in mine if each.log.log_end_offset or each.index in self._loaded]
        loaded = [self._load(each) for each in used]
        return [group for each in loaded for group in list(each.groups.values())]

    def all_groups(self) -> list[GroupMetadata]:
        """The groups that are in memory, whoever coordinates them."""
        with self._lock:
            loaded = list(self._loaded.values())
        return [group for each in loaded for group in list(each.groups.values())]

    def loaded_groups(self, again: Callable[[], None] | None) -> list[GroupMetadata]:
        """All groups there are, read from their logs if need be.

        Args:
            again: called later if some of them cannot be had at once; None: they are left out.
        """
        topic = self._topics.get(OFFSETS_TOPIC)
        is_late = False
        for partition in topic.partitions if topic is not None else ():
            try:
                if partition.log.log_end_offset > partition.log.log_start_offset:
                    self._load(partition)
            except GroupError:
                is_late = True
        if is_late and again is not None:
            # Behind what is being loaded.
            self._worker.put(again)
        return self.all_groups()

    def forget(self, group: GroupMetadata) -> None:
        """Take a dead group out; its lock may be held."""
        with self._lock:
            loaded = self._loaded.get(group.partition.index)
            if loaded is not None and loaded.groups.get(group.group_id) is group:
                del loaded.groups[group.group_id]

    def drop_moved(self) -> None:
        """Let go of the groups that another node coordinates now; who waits in them is told."""
        with self._lock:
            moved = [
                each
                for each in self._loaded.values()
                if each.leader_epoch != each.partition.leader_epoch
            ]
        self._unload(moved, NOT_COORDINATOR)

    def close(self) -> None:
        """Let go of all groups, and tell those who wait in them. May be repeated."""
        with self._lock:
            self._is_closed = True
            loaded = list(self._loaded.values())
        self._unload(loaded, COORDINATOR_NOT_AVAILABLE)

    def _partition(self, group_id: str) -> Partition | None:
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        return topic.partitions[partition_for(group_id, len(topic.partitions))]

    # Loading.

    def _load(self, partition: Partition) -> _LoadedPartition:
        """The groups of a partition, read from its log if its leader has changed.

        Raises:
            GroupError: they are being read, or the broker stops.
        """
        loaded = self._loaded.get(partition.index)
        epoch = partition.leader_epoch
        if loaded is None or loaded.leader_epoch != epoch or loaded.partition is not partition:
            loaded = self._load_anew(partition, epoch)
        if loaded.is_loading:
            raise GroupError(COORDINATOR_LOAD_IN_PROGRESS)
        return loaded

    def _load_anew(self, partition: Partition, epoch: int) -> _LoadedPartition:
        with self._lock:
            if self._is_closed:
                raise GroupError(COORDINATOR_NOT_AVAILABLE)
            before = self._loaded.get(partition.index)
            if before is not None and before.leader_epoch >= epoch:
                # Another thread does it.
                return before
            fresh = self._loaded[partition.index] = _LoadedPartition(partition, epoch)
        if before is not None:
            # First: from then on nothing of theirs comes into the log.
            self._unload([before], NOT_COORDINATOR)
        log = partition.log
        if log.log_end_offset == log.log_start_offset or log.size_bytes <= _QUICK_BYTES:
            self._read(fresh)
        elif not self._worker.put(lambda: self._read(fresh)):
            self._give_up(fresh)
        return fresh

    def _give_up(self, loaded: _LoadedPartition) -> None:
        """Have the next request try again."""
        with self._lock:
            if self._loaded.get(loaded.partition.index) is loaded:
                del self._loaded[loaded.partition.index]

    def _unload(self, unloaded: Sequence[_LoadedPartition], code: int) -> None:
        for each in unloaded:
            for group in list(each.groups.values()):
                with group.lock:
                    self._on_unloaded(group, code)
            # Last: until then whoever loads it anew waits for these locks, too.
            self._give_up(each)

    def _read(self, loaded: _LoadedPartition) -> None:
        """Read the log of a partition, and have its groups known."""
        try:
            groups = self._replay(loaded.partition)
        except Exception:
            _log.exception("the groups in %s cannot be loaded", loaded.partition)
            self._give_up(loaded)
            return
        with self._lock:
            if self._loaded.get(loaded.partition.index) is not loaded:
                # Another node has taken over meanwhile.
                return
            loaded.groups.update({group.group_id: group for group in groups})
        for group in groups:
            with group.lock:
                # It is dead if that happens now.
                if not group.is_in(GroupState.DEAD):
                    self._on_loaded(group)
        loaded.is_loading = False

    def _replay(self, partition: Partition) -> list[GroupMetadata]:
        """The groups that a log holds.

        Raises:
            LogError: its files cannot be read.
            KafkaError: they are damaged.
        """
        stored: dict[str, GroupMetadataValue] = {}
        offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for key, value in _records(partition):
            what = read_key(key)
            if isinstance(what, OffsetCommitKey):
                committed = offsets.setdefault(what.group, {})
                if value is None:
                    committed.pop((what.topic, what.partition), None)
                else:
                    committed[what.topic, what.partition] = read_offset(value)
            elif isinstance(what, GroupMetadataKey):
                if value is None:
                    stored.pop(what.group, None)
                else:
                    stored[what.group] = read_group(value)
        names = dict.fromkeys([*stored, *(name for name, some in offsets.items() if some)])
        now_ms = self._clock.time_ms()
        return [
            GroupMetadata.load(name, partition, now_ms, stored.get(name), offsets.get(name, {}))
            for name in names
        ]

    # Storing.

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

    def append(self, group: GroupMetadata, entries: Sequence[LogEntry]) -> int:
        """Append records about a group to its log, as one batch; its lock is held.

        This is where one would wait for the replicas that acks=all asks for.

        Returns:
            NONE; MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE; KAFKA_STORAGE_ERROR; or a code of a
            coordinator that cannot do it now.
        """
        partition = group.partition
        if partition.leader == NO_NODE:
            return NOT_COORDINATOR
        if len(partition.isr) < partition.min_isr:
            return COORDINATOR_NOT_AVAILABLE
        try:
            partition.append(encode_batch(entries, self._clock.time_ms()))
        except (InvalidBatch, LogError) as error:
            if error.error_code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
                return error.error_code
            _log.error("group %r cannot be written down: %s", group.group_id, error.message)
            return KAFKA_STORAGE_ERROR
        except PartitionDeleted:
            return COORDINATOR_NOT_AVAILABLE
        group.lock.defer(partial(self._grown, partition))
        return NONE

    def append_all(self, group: GroupMetadata, entries: Sequence[LogEntry]) -> int:
        """The same with as many batches as it takes; what is in those before an error is kept."""
        for part in split(entries, _PART_BYTES):
            code = self.append(group, part)
            if code != NONE:
                return code
        return NONE

    def _grown(self, partition: Partition) -> None:
        self._appended(partition)
        log = partition.log
        loaded = self._loaded.get(partition.index)
        if loaded is None or loaded.partition is not partition or loaded.is_rewriting:
            return
        if log.size_bytes > max(_REWRITE_BYTES, _REWRITE_FACTOR * loaded.live_bytes):
            with self._lock:
                if loaded.is_rewriting:
                    return
                loaded.is_rewriting = True
            if not self._worker.put(lambda: self._rewrite(loaded)):
                loaded.is_rewriting = False

    def _rewrite(self, loaded: _LoadedPartition) -> None:
        """Append what counts in a log once more, and drop all that lies before.

        It has the effect of compaction. Once offsets of transactions are kept here, what belongs to
        an open one has to stay.
        """
        log = loaded.partition.log
        start_offset, start_bytes = log.log_end_offset, log.appended_bytes
        try:
            for group in list(loaded.groups.values()):
                with group.lock:
                    if group.is_in(GroupState.DEAD):
                        continue
                    entries = offset_entries(group.group_id, group.offsets)
                    if group.stored_entry is not None:
                        entries.append(group.stored_entry)
                    if self.append_all(group, entries) != NONE:
                        return
            if loaded.leader_epoch == loaded.partition.leader_epoch:
                loaded.live_bytes = log.appended_bytes - start_bytes
                log.delete_records(start_offset)
        except LogError as error:
            _log.warning("%s is not written anew: %s", loaded.partition, error)
        finally:
            loaded.is_rewriting = False


def _records(partition: Partition) -> list[tuple[bytes, bytes | None]]:
    """Key and value of every record in a log."""
    log = partition.log
    offset, end_offset = log.log_start_offset, log.log_end_offset
    found: list[tuple[bytes, bytes | None]] = []
    while offset < end_offset:
        parts = log.read(offset, _READ_BYTES, True, end_offset)
        batches = [
            each for part in parts for each in read_batches(part, limit_bytes=_LARGEST_BATCH_BYTES)
        ]
        if not batches:
            break
        for batch in batches:
            offset = batch.next_offset
            # Markers and offsets of transactions are not written yet.
            if not batch.is_control:
                found += [(each.key or b"", each.value) for each in batch.records()]
    return found
