"""PartitionedState: what a coordinator keeps by name, in the partitions of a topic of the broker's.

A name belongs to one partition, and the node that leads the partition coordinates it. When another
node takes over, what the log has is read again. It has the effect of Kafka's CoordinatorRuntime.

Source: CoordinatorRuntime and TransactionStateManager of Apache Kafka; contract B-E1, B-E2, B-E4.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from fastprod._core.log.batch_validator import InvalidBatch, inspect
from fastprod._core.records.record_reader import RecordBatch, read_batches
from fastprod.broker.cluster.partition import (
    NO_NODE,
    NotEnoughReplicas,
    Partition,
    PartitionDeleted,
)
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.log.log import LogError
from fastprod.broker.log.record_batch import (
    NO_PRODUCER,
    TRANSACTIONAL,
    LogEntry,
    Producer,
    encode_batch,
    split,
)
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.deferring_lock import DeferringLock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    RECORD_LIST_TOO_LARGE,
)

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

_TOLD_AS_THEY_ARE: Final = frozenset(
    {MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE}
)

STATE_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(_SEGMENT_BYTES),
}
"""Settings of such a topic. It is compacted, and written anew when it grows faster than that."""


class CoordinatorError(Exception):
    """A request to a coordinator is refused.

    Attributes:
        code: Kafka's error code.
        text: why, for answers that have room for it.
    """

    def __init__(self, code: int, text: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.text = text


class StateTopic(NamedTuple):
    """The topic that a coordinator keeps its state in.

    Attributes:
        name: one of the broker's own.
        partition_count: how many it is made with.
        replication_factor: likewise; fewer if there are fewer nodes.
        settings: besides `STATE_TOPIC_CONFIG`.
    """

    name: str
    partition_count: int
    replication_factor: int
    settings: Mapping[str, str] = MappingProxyType({})


class Item(Protocol):
    """What is kept. All but these three is guarded by `lock`."""

    @property
    def key(self) -> str:
        """Its name."""

    @property
    def partition(self) -> Partition:
        """Where it is kept."""

    @property
    def lock(self) -> DeferringLock:
        """Its own lock."""

    @property
    def is_dead(self) -> bool:
        """Whether it is kept no more."""


T = TypeVar("T", bound=Item)


def partition_for(key: str, partition_count: int) -> int:
    """Which partition keeps a name: by the hash that Java has of it."""
    code = 0
    utf16 = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(utf16), 2):
        code = (code * 31 + (utf16[at] << 8 | utf16[at + 1])) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % partition_count


class _LoadedPartition(Generic[T]):
    """What one partition keeps, as of one leader epoch. Guarded by the manager's lock.

    Attributes:
        items: by name; those that are dead are taken out.
        is_loading: the log is being read.
        is_rewriting: it is being written anew.
        live_bytes: what that took the last time.
    """

    __slots__ = ("is_loading", "is_rewriting", "items", "leader_epoch", "live_bytes", "partition")

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.items: dict[str, T] = {}
        self.is_loading = True
        self.is_rewriting = False
        self.live_bytes = 0


class PartitionedState(ABC, Generic[T]):
    """Finds, loads, stores and forgets what is kept. Any thread.

    An item's lock may be held around a call where its text says so, and may be taken by every other
    one. The manager's own lock is taken inside of those, and never around one.

    Args:
        topic: where it is kept.
        topics: where that is.
        clock: the broker's.
        worker: where long logs are read and written.
        appended: called with a partition that has grown, without a lock.
    """

    def __init__(
        self,
        topic: StateTopic,
        topics: Topics,
        clock: Clock,
        worker: OverflowWorker,
        appended: Callable[[Partition], object],
    ) -> None:
        self._topic = topic
        self._topics = topics
        self._clock = clock
        self._worker = worker
        self._appended = appended
        self._lock = threading.Lock()
        self._loaded: dict[int, _LoadedPartition[T]] = {}
        self._is_closed = False

    # What is kept.

    @abstractmethod
    def _new(self, key: str, partition: Partition) -> T:
        """An item that nothing is known of."""

    @abstractmethod
    def _replay(self, partition: Partition) -> list[T]:
        """The items that a log holds.

        Raises:
            LogError: its files cannot be read.
            KafkaError: they are damaged.
        """

    @abstractmethod
    def _on_loaded(self, item: T) -> None:
        """An item was read; its lock is held."""

    @abstractmethod
    def _on_unloaded(self, item: T, code: int) -> None:
        """Another node coordinates the item; its lock is held. Those who wait in it get `code`."""

    @abstractmethod
    def _live_entries(self, item: T) -> list[LogEntry] | None:
        """All that counts of an item, its lock held; None: that cannot be said now."""

    # Who coordinates.

    def make_topic(self) -> int:
        """Make the topic unless it is there; returns the number of its partitions.

        Blocks while other topics are made.

        Raises:
            TopicError: it cannot be made; or the broker is stopped.
            OSError: a folder cannot be made.
        """
        name, count, factor, settings = self._topic
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics.create_internal(
                name, count, factor, {**STATE_TOPIC_CONFIG, **settings}
            )
        return len(topic.partitions)

    @property
    def partition_count(self) -> int:
        """How many partitions the topic is made with."""
        return self._topic.partition_count

    @property
    def has_topic(self) -> bool:
        """Whether anybody has asked for a coordinator."""
        return self._topics.get(self._topic.name) is not None

    def leader_of(self, key: str) -> int:
        """The node that coordinates a name; -1: none does now."""
        partition = self.partition_of(key)
        return NO_NODE if partition is None else partition.leader

    def partition_of(self, key: str) -> Partition | None:
        """Where a name is kept; None: the topic was not made yet."""
        topic = self._topics.get(self._topic.name)
        if topic is None:
            return None
        return topic.partitions[partition_for(key, len(topic.partitions))]

    def item(
        self,
        key: str,
        node_id: int | None,
        creates: bool = False,
        new: Callable[[str, Partition], T] | None = None,
    ) -> T | None:
        """What is kept by a name; None: nothing is.

        Args:
            key: its name.
            node_id: the node that was asked; None: whichever coordinates it.
            creates: make it if there is none.
            new: makes it, by default as one that nothing is known of; no lock may be taken.

        Raises:
            CoordinatorError: the node does not coordinate it, or not yet.
        """
        partition = self.partition_of(key)
        if partition is None:
            raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
        if partition.leader != node_id and (node_id is not None or partition.leader == NO_NODE):
            raise CoordinatorError(NOT_COORDINATOR)
        loaded = self._load(partition)
        item = loaded.items.get(key)
        if item is not None or not creates:
            return item
        with self._lock:
            # Of an older epoch: nobody would unload what came to it now.
            if loaded.leader_epoch != partition.leader_epoch:
                raise CoordinatorError(NOT_COORDINATOR)
            if key not in loaded.items:
                loaded.items[key] = (new or self._new)(key, partition)
            return loaded.items[key]

    def items(self, node_id: int) -> list[T]:
        """All that a node coordinates.

        Raises:
            CoordinatorError: some of it is being loaded.
        """
        topic = self._topics.get(self._topic.name)
        mine = [each for each in topic.partitions if each.leader == node_id] if topic else []
        used = [each for each in mine if each.log.log_end_offset or each.index in self._loaded]
        return [item for each in self._load_all(used) for item in list(each.items.values())]

    def items_in(self, partition: Partition) -> list[T]:
        """All that a partition keeps.

        Raises:
            CoordinatorError: it is being loaded.
        """
        return list(self._load(partition).items.values())

    def all_items(self) -> list[T]:
        """What is in memory, whoever coordinates it."""
        with self._lock:
            loaded = list(self._loaded.values())
        return [item for each in loaded for item in list(each.items.values())]

    def loaded_items(self, again: Callable[[], None] | None) -> list[T]:
        """All there is, read from the logs if need be.

        Args:
            again: called later if some of it cannot be had at once; None: that is left out.
        """
        topic = self._topics.get(self._topic.name)
        used = [
            each
            for each in (topic.partitions if topic is not None else ())
            if each.log.log_end_offset > each.log.log_start_offset
        ]
        try:
            self._load_all(used)
        except CoordinatorError:
            if again is not None:
                # Behind what is being loaded.
                self._worker.put(again)
        return self.all_items()

    def forget(self, item: T) -> None:
        """Take a dead item out; its lock may be held."""
        with self._lock:
            loaded = self._loaded.get(item.partition.index)
            if loaded is not None and loaded.items.get(item.key) is item:
                del loaded.items[item.key]

    def replace(self, item: T, by: T) -> None:
        """Have another item in the place of one; they share a lock, which is held.

        Raises:
            CoordinatorError: it is kept no more.
        """
        with self._lock:
            loaded = self._loaded.get(item.partition.index)
            if loaded is None or loaded.items.get(item.key) is not item:
                raise CoordinatorError(NOT_COORDINATOR)
            loaded.items[item.key] = by

    def drop_moved(self) -> None:
        """Let go of what another node coordinates now; who waits in it is told."""
        with self._lock:
            moved = [
                each
                for each in self._loaded.values()
                if each.leader_epoch != each.partition.leader_epoch
            ]
        self._unload(moved, NOT_COORDINATOR)

    def close(self) -> None:
        """Let go of everything, and tell those who wait in it. May be repeated."""
        with self._lock:
            self._is_closed = True
            loaded = list(self._loaded.values())
        self._unload(loaded, COORDINATOR_NOT_AVAILABLE)

    # Loading.

    def _load_all(self, partitions: Sequence[Partition]) -> list[_LoadedPartition[T]]:
        """What several partitions keep; who calls reads no more than of one, the worker the rest.

        Raises:
            CoordinatorError: some is being read, or the broker stops; the others have been begun.
        """
        found: list[_LoadedPartition[T]] = []
        refused: CoordinatorError | None = None
        left_bytes = _QUICK_BYTES
        for each in partitions:
            before = self._loaded.get(each.index)
            try:
                found.append(self._load(each, left_bytes))
            except CoordinatorError as error:
                refused = error
            else:
                left_bytes -= 0 if found[-1] is before else each.log.size_bytes
        if refused is not None:
            raise refused
        return found

    def _load(self, partition: Partition, quick_bytes: int = _QUICK_BYTES) -> _LoadedPartition[T]:
        """What a partition keeps, read from its log if its leader has changed.

        A log of more than `quick_bytes` is read by the worker.

        Raises:
            CoordinatorError: it is being read, or the broker stops.
        """
        loaded = self._loaded.get(partition.index)
        epoch = partition.leader_epoch
        if loaded is None or loaded.leader_epoch != epoch or loaded.partition is not partition:
            loaded = self._load_anew(partition, epoch, quick_bytes)
        if loaded.is_loading:
            raise CoordinatorError(COORDINATOR_LOAD_IN_PROGRESS)
        return loaded

    def _load_anew(self, partition: Partition, epoch: int, quick_bytes: int) -> _LoadedPartition[T]:
        with self._lock:
            if self._is_closed:
                raise CoordinatorError(COORDINATOR_NOT_AVAILABLE)
            before = self._loaded.get(partition.index)
            if before is not None and before.leader_epoch >= epoch:
                # Another thread does it.
                return before
            fresh = self._loaded[partition.index] = _LoadedPartition[T](partition, epoch)
        if before is not None:
            # First: from then on nothing of theirs comes into the log.
            self._unload([before], NOT_COORDINATOR)
        log = partition.log
        if log.log_end_offset == log.log_start_offset or log.size_bytes <= quick_bytes:
            self._read(fresh)
        elif not self._worker.put(lambda: self._read(fresh)):
            self._give_up(fresh)
        return fresh

    def _give_up(self, loaded: _LoadedPartition[T]) -> None:
        """Have the next request try again."""
        with self._lock:
            if self._loaded.get(loaded.partition.index) is loaded:
                del self._loaded[loaded.partition.index]

    def _unload(self, unloaded: Sequence[_LoadedPartition[T]], code: int) -> None:
        for each in unloaded:
            for item in list(each.items.values()):
                with item.lock:
                    # Another one may have its place by now.
                    self._on_unloaded(each.items.get(item.key, item), code)
            # Last: until then whoever loads it anew waits for these locks, too.
            self._give_up(each)

    def _read(self, loaded: _LoadedPartition[T]) -> None:
        """Read the log of a partition, and have its items known."""
        try:
            items = self._replay(loaded.partition)
        except Exception:
            _log.exception("what %s keeps cannot be loaded", loaded.partition)
            self._give_up(loaded)
            return
        with self._lock:
            if self._loaded.get(loaded.partition.index) is not loaded:
                # Another node has taken over meanwhile.
                return
            loaded.items.update({item.key: item for item in items})
        for item in items:
            with item.lock:
                # It is dead if that happens now.
                if not item.is_dead:
                    self._on_loaded(item)
        loaded.is_loading = False

    # Storing.

    def append(self, item: T, entries: Sequence[LogEntry], producer: Producer = NO_PRODUCER) -> int:
        """Append records about an item to its log, as one batch; its lock is held.

        As with acks=all, nothing counts before all replicas in sync have it: another one could
        lead next. They fetch it at once; one that cannot is waited for by who asks again.

        Args:
            item: what they are about.
            entries: one or more.
            producer: they belong to its transaction, which was looked at; by default to none.

        Returns:
            NONE; MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE; KAFKA_STORAGE_ERROR; the code of a
            coordinator that cannot do it now, though it may be in the log; or why the producer may
            not.
        """
        partition = item.partition
        if partition.leader == NO_NODE:
            return NOT_COORDINATOR
        attributes = 0 if producer is NO_PRODUCER else TRANSACTIONAL
        batch = encode_batch(entries, self._clock.time_ms(), producer, attributes)
        try:
            # What a client may not write, a batch of a producer without a sequence, is not checked.
            info = inspect(batch, 0) if attributes else None
            if info is not None and info.size_bytes > partition.log.config.max_message_bytes:
                return MESSAGE_TOO_LARGE
            appended = partition.append_replicated(batch, info)
        except (InvalidBatch, LogError) as error:
            return self._refused(item, error.error_code, error.message)
        except (PartitionDeleted, NotEnoughReplicas):
            return COORDINATOR_NOT_AVAILABLE
        item.lock.defer(partial(self._grown, partition))
        fate = partition.error_of_append(*appended)
        if fate == NOT_LEADER_OR_FOLLOWER:
            return NOT_COORDINATOR
        return NONE if fate == NONE else COORDINATOR_NOT_AVAILABLE

    def _refused(self, item: T, code: int, message: str) -> int:
        if code in _TOLD_AS_THEY_ARE:
            return code
        _log.error("%r cannot be written down: %s", item, message)
        return KAFKA_STORAGE_ERROR

    def append_all(self, item: T, entries: Sequence[LogEntry]) -> int:
        """The same with as many batches as it takes; what is in those before an error is kept."""
        for part in split(entries, _PART_BYTES):
            code = self.append(item, part)
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

    def _rewrite(self, loaded: _LoadedPartition[T]) -> None:
        """Append what counts in a log once more, and drop all that lies before.

        It has the effect of compaction. While a transaction is open here it waits for the next
        append: what belongs to that has to stay as it is.
        """
        log = loaded.partition.log
        start_offset, start_bytes = log.log_end_offset, log.appended_bytes
        try:
            if log.last_stable_offset < start_offset:
                return
            for item in list(loaded.items.values()):
                with item.lock:
                    if item.is_dead:
                        continue
                    entries = self._live_entries(item)
                    if entries is None or self.append_all(item, entries) != NONE:
                        return
            if loaded.leader_epoch == loaded.partition.leader_epoch:
                loaded.live_bytes = log.appended_bytes - start_bytes
                log.delete_records(start_offset)
        except LogError as error:
            _log.warning("%s is not written anew: %s", loaded.partition, error)
        finally:
            loaded.is_rewriting = False


def batches_of(partition: Partition) -> Iterator[RecordBatch]:
    """Every batch in a log, oldest first.

    Raises:
        LogError: its files cannot be read.
        KafkaError: they are damaged.
    """
    log = partition.log
    offset, end_offset = log.log_start_offset, log.log_end_offset
    while offset < end_offset:
        parts = log.read(offset, _READ_BYTES, True, end_offset)
        batches = [
            each for part in parts for each in read_batches(part, limit_bytes=_LARGEST_BATCH_BYTES)
        ]
        if not batches:
            break
        for batch in batches:
            offset = batch.next_offset
            yield batch
