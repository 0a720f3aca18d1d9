"""The topics of a cluster: names, ids, settings, partitions (B-D4)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from fastprod.broker.cluster.partition import Decision, Partition, SavedPartition, close_all
from fastprod.broker.cluster.replica_assignment import check_growth, checked_assignment, spread
from fastprod.broker.cluster.topic import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
    ZERO_ID,
    NewTopic,
    SavedTopic,
    Topic,
    invalid_name_reason,
)
from fastprod.broker.cluster.topic_config import InvalidConfigError, TopicConfig
from fastprod.broker.cluster.topic_error import TopicError
from fastprod.broker.config import BrokerConfig
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_error import LogError
from fastprod.error_codes import (
    BROKER_NOT_AVAILABLE,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

__all__ = [
    "INTERNAL_TOPICS",
    "MAX_PARTITION_COUNT",
    "OFFSETS_TOPIC",
    "TRANSACTION_TOPIC",
    "ZERO_ID",
    "NewTopic",
    "SavedPartition",
    "SavedTopic",
    "Topic",
    "TopicError",
    "Topics",
    "invalid_name_reason",
]

_log = logging.getLogger(__name__)

MAX_PARTITION_COUNT = 100_000
"""Most partitions of one topic: each is a log."""

# How many topics are written down in one step, at most.
_GROUP_COUNT = 64

_COLLIDING = frozenset("._")


OpenLog = Callable[[str, int, bytes, TopicConfig], Log]
"""Makes or recovers a log: topic, partition, the topic's id, its settings."""

OpenReplicas = Callable[["Topic", SavedPartition, Sequence[int]], Partition | None]
"""Makes or recovers the next partition of a topic, with a log for each replica, from what is kept
of it and the nodes that are up; None: its replicas share one log."""

Check = Callable[..., tuple[TopicConfig, list[list[int]]]]
"""Returns settings and replicas of a planned topic, or raises TopicError."""

OnChange = Callable[[Sequence[SavedTopic], Sequence[bytes]], None]
"""Writes down: topics as they are now, ids of topics that are gone; all or nothing."""


class Topics:
    """Every topic by name and by id.

    Any thread: look-ups take no lock, changes are made under one.

    Args:
        config: gives the defaults of topics.
        node_ids: nodes that can lead partitions.
        open_log: makes the log of a partition.
        now_ns: the broker's clock.
        on_change: writes down topics that are new or have changed, and ids of those that are gone;
            called under the lock; None: they live in memory alone.
        open_replicas: makes partitions with several replicas.
    """

    def __init__(
        self,
        config: BrokerConfig,
        node_ids: Sequence[int],
        open_log: OpenLog,
        now_ns: Callable[[], int],
        on_change: OnChange | None = None,
        open_replicas: OpenReplicas = lambda topic, saved, live: None,
    ) -> None:
        self._config = config
        # Topics without settings of their own share this object, and what is computed from it.
        self._plain_config = TopicConfig(config, {})
        self._node_ids = list(node_ids)
        # Until nodes are reported up or down, all count as up.
        self._live = self._node_ids
        self._open_log = open_log
        self._open_replicas = open_replicas
        self._on_change = on_change
        self._now_ns = now_ns
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        # Names of all topics, and of those that are being made.
        self._reserved: set[str] = set()
        # Names with a dot or an underscore, by their spelling in names of metrics (both alike).
        self._by_folded: dict[str, list[str]] = {}
        self._partition_count = 0
        self._is_closed = False
        self._version = 0
        self._lock = threading.RLock()

    @property
    def live(self) -> Sequence[int]:
        """Nodes that new topics may use, by id."""
        return self._live

    @property
    def version(self) -> int:
        """Grows when a topic comes or goes."""
        return self._version

    @property
    def is_busy(self) -> bool:
        """Whether another thread makes or deletes topics: the caller would have to wait."""
        if not self._lock.acquire(blocking=False):
            return True
        self._lock.release()
        return False

    def set_live(self, node_ids: Sequence[int]) -> None:
        """Have the leaders of topics that are made from now on be among these nodes."""
        with self._lock:
            self._live = list(node_ids)

    def get(self, name: str) -> Topic | None:
        """The topic called `name`, or None."""
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with that id, or None."""
        return self._by_id.get(bytes(topic_id))

    def name_of(self, topic_id: bytes) -> str:
        """The name of the topic with that id; "": there is none."""
        topic = self._by_id.get(bytes(topic_id))
        return "" if topic is None else topic.name

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition, or None if the topic or the partition does not exist."""
        topic = self._by_name.get(name)
        return None if topic is None else topic.partition(index)

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        # Without the lock, which is held for long while a topic of many partitions is made.
        by_name = self._by_name.copy()
        return [by_name[name] for name in sorted(by_name)]

    def check_new(
        self,
        name: str,
        partition_count: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str | None] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> tuple[TopicConfig, list[list[int]]]:
        """Return the settings of a new topic and its partitions' replicas, or say why not.

        Args:
            name: 1 to 249 characters of a-z, A-Z, 0-9, `.`, `_` and `-`; not an internal name.
            partition_count: 1 or more; -1: `num_partitions`.
            replication_factor: 1 or more; -1: `default_replication_factor`.
            config: Kafka's names of topic settings and their values.
            assignment: partition -> nodes, in place of the two numbers.

        Raises:
            TopicError: it cannot be made so, or the broker is stopped.
        """
        self._refuse_if_closed()
        reason = invalid_name_reason(name)
        if reason is None and name in INTERNAL_TOPICS:
            reason = f"{name} is the name of an internal topic"
        if reason is not None:
            raise TopicError(INVALID_TOPIC_EXCEPTION, reason)
        if name in self._reserved:
            raise TopicError(TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        colliding = self._by_folded.get(_folded(name))
        if colliding:
            raise TopicError(
                INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic(s): {', '.join(colliding)}",
            )
        if assignment:
            if partition_count != -1 or replication_factor != -1:
                raise TopicError(
                    INVALID_REPLICA_ASSIGNMENT,
                    "with a replica assignment the numbers of partitions and replicas must be -1",
                )
            replicas = checked_assignment(assignment, self._node_ids)
        else:
            count = self._checked_count(partition_count)
            replicas = spread(
                count, self._checked_factor(replication_factor), self._node_ids, self._live
            )
        self._refuse_too_many(len(replicas))
        try:
            return self._topic_config(config), replicas
        except InvalidConfigError as error:
            raise TopicError(INVALID_CONFIG, str(error)) from None

    def create(
        self,
        name: str,
        partition_count: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str | None] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> Topic:
        """Make a topic; it can be used when this returns. Arguments as `check_new`.

        Raises:
            TopicError: as `check_new`, or the broker was stopped meanwhile.
            OSError: a log's folder cannot be made, or the topic not be written down.
        """
        plan = NewTopic(name, partition_count, replication_factor, config or {}, assignment or {})
        (made,) = self.create_many([plan])
        if isinstance(made, Exception):
            raise made
        return made

    def create_internal(
        self, name: str, partition_count: int, replication_factor: int, config: Mapping[str, str]
    ) -> Topic:
        """Make a topic of the broker's own, or return the one that there is.

        Args:
            name: one of `INTERNAL_TOPICS`.
            partition_count: 1 or more.
            replication_factor: 1 or more; with fewer nodes, one replica on each.
            config: as `check_new`.

        Raises:
            TopicError: the broker is stopped.
            OSError: as `create`.
        """
        with self._lock:
            topic = self._by_name.get(name)
            if topic is not None:
                return topic
            plan = NewTopic(name, partition_count, replication_factor, config)
            (made,) = self._create_group([plan], self._plan_internal)
        if isinstance(made, Exception):
            raise made
        return made

    def _plan_internal(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        config: Mapping[str, str | None],
        assignment: Mapping[int, Sequence[int]],
    ) -> tuple[TopicConfig, list[list[int]]]:
        self._refuse_if_closed()
        factor = min(replication_factor, len(self._node_ids))
        return self._topic_config(config), spread(
            partition_count, factor, self._node_ids, self._live
        )

    def create_many(self, plans: Sequence[NewTopic]) -> list[Topic | Exception]:
        """Make topics, each for itself; they can be used when this returns.

        Returns:
            Of each plan the topic, or what `create` raises.
        """
        made: list[Topic | Exception] = []
        for start in range(0, len(plans), _GROUP_COUNT):
            with self._lock:
                made += self._create_group(plans[start : start + _GROUP_COUNT], self.check_new)
        return made

    def _create_group(self, plans: Sequence[NewTopic], check: Check) -> list[Topic | Exception]:
        """Make topics that are written down in one step, which takes as long as for one."""
        results: list[Topic | Exception] = []
        reserved: list[Topic] = []
        try:
            for plan in plans:
                try:
                    reserved.append(self._prepare(plan, check))
                    results.append(reserved[-1])
                except Exception as error:
                    results.append(error)
            # Before they can be found: no client may write to a topic that a crash would forget.
            failed = self._write_each_down(reserved)
        except BaseException:
            for topic in reserved:
                self._undo(topic)
            raise
        for at, made in enumerate(results):
            if isinstance(made, Topic) and made.id in failed:
                self._undo(made)
                results[at] = failed[made.id]
            elif isinstance(made, Topic):
                self._publish(made)
        return results

    def _prepare(self, plan: NewTopic, check: Check) -> Topic:
        """Open the logs of a topic and reserve its name; nobody can find it yet."""
        config, replicas = check(*plan)
        topic = Topic(plan.name, os.urandom(16), config, self._now_ns())
        self._reserve(topic)
        try:
            for nodes in replicas:
                self._add_partition(topic, SavedPartition(nodes, 0))
                self._refuse_if_closed()
        except BaseException:
            self._undo(topic)
            raise
        return topic

    def _undo(self, topic: Topic) -> None:
        """Undo `_prepare`."""
        self._release(topic)
        self._delete_logs(topic)

    def _delete_logs(self, topic: Topic) -> None:
        """Delete the logs of a topic; a stop leaves folders to the next start."""
        for partition in topic.partitions:
            try:
                partition.delete(removes_files=not self._is_closed)
            except LogError as error:
                # The topic is gone; a new topic of that name renames what is left of it.
                _log.error("files of %s stay: %s", partition, error)

    def _write_each_down(self, topics: Sequence[Topic]) -> dict[bytes, OSError]:
        """Write topics down, together if that can be; returns what went wrong, by their ids."""
        try:
            self._write_down([topic.saved() for topic in topics])
        except OSError as error:
            if len(topics) == 1:
                return {topics[0].id: error}
            failed: dict[bytes, OSError] = {}
            for topic in topics:
                failed |= self._write_each_down([topic])
            return failed
        return {}

    def restore(self, saved: SavedTopic) -> Topic:
        """Add a topic of an earlier run, with its logs; each leader epoch grows (B-C8.6)."""
        with self._lock:
            topic = Topic(saved.name, saved.id, self._topic_config(saved.config), self._now_ns())
            for index, each in enumerate(saved.partitions):
                kept = each.among(self._node_ids)
                if not kept.replicas:
                    kept.replicas.append(self._node_ids[index % len(self._node_ids)])
                self._add_partition(topic, kept, is_restored=True)
            self._reserve(topic)
            self._publish(topic)
            return topic

    def add_partitions(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None = None,
        is_only_checked: bool = False,
    ) -> Topic:
        """Give a topic more partitions; they can be used when this returns.

        Args:
            name: of the topic.
            count: how many it has then.
            assignment: nodes of each new one; None: they go on where the others end.
            is_only_checked: say what is wrong, and change nothing.

        Raises:
            TopicError: there is no such topic, or it cannot be so.
            OSError: as `create`; the topic stays as it was.
        """
        with self._lock:
            topic = self._changeable(name)
            before = topic.partitions
            check_growth(name, len(before), count, assignment)
            self._refuse_too_many(count - len(before))  # Before billions are spread.
            replicas = self._more_replicas(before, count, assignment)
            if is_only_checked:
                return topic
            # Nobody can find them before they are written down.
            grown = Topic(topic.name, topic.id, topic.config, topic.created_ns)
            grown.partitions = [*before]
            try:
                for nodes in replicas:
                    self._add_partition(grown, SavedPartition([*nodes], 0))
                self._write_down([grown.saved()])
            except BaseException:
                made = grown.partitions[len(before) :]
                self._partition_count -= len(made)
                grown.partitions = made
                self._delete_logs(grown)
                raise
            topic.partitions = grown.partitions
            return topic

    def _more_replicas(
        self, before: Sequence[Partition], count: int, assignment: Sequence[Sequence[int]] | None
    ) -> Sequence[Sequence[int]]:
        factor = len(before[0].replicas)
        if assignment is not None:
            return checked_assignment(dict(enumerate(assignment)), self._node_ids, factor)
        return spread(count, factor, self._node_ids, self._live)[len(before) :]

    def change_config(
        self,
        name: str,
        changed: Callable[[TopicConfig], Mapping[str, str | None]],
        is_only_checked: bool = False,
    ) -> None:
        """Give a topic other settings in place of those it has of its own.

        Args:
            name: of the topic.
            changed: makes them, Kafka's names and values, of those that the topic has now; nobody
                changes these meanwhile.
            is_only_checked: say what is wrong, and change nothing.

        Raises:
            TopicError: there is no such topic, or it cannot be so.
            OSError: they cannot be written down; the topic stays as it was.
        """
        with self._lock:
            topic = self._changeable(name)
            try:
                config = self._topic_config(changed(topic.config))
            except InvalidConfigError as error:
                raise TopicError(INVALID_CONFIG, str(error)) from None
            if is_only_checked:
                return
            self._write_down([topic.saved(config=config)])
            topic.config = config
            for partition in topic.partitions:
                partition.reconfigure(config)

    def _changeable(self, name: str) -> Topic:
        """A topic that clients may change."""
        self._refuse_if_closed()
        topic = self._by_name.get(name)
        if topic is None:
            raise TopicError(UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{name}'.")
        if topic.is_internal:
            raise TopicError(INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
        return topic

    def decide(self, decisions: Mapping[Partition, Decision]) -> None:
        """Write down what the controller decides, then have it hold; nobody writes in between.

        Raises:
            OSError: it cannot be written down; nothing of it holds.
        """
        with self._lock:
            names = dict.fromkeys(each.topic for each in decisions)
            topics = [self._by_name[name] for name in names if name in self._by_name]
            self._write_down([topic.saved(decisions) for topic in topics])
            for partition, decision in decisions.items():
                if not partition.is_deleted:
                    partition.take(decision)

    def delete(self, name: str, topic_id: bytes | None = None) -> Topic:
        """Take the topic out; returns it, with its logs gone and its partitions marked (B-D4.3).

        With an id only if that is its own. After a stop the next start removes what files are left.

        Raises:
            TopicError: there is no such topic, it is the broker's own, or the broker is stopped.
            OSError: the deletion cannot be written down; the topic stays.
        """
        with self._lock:
            topic = self._changeable(name)
            if topic_id not in (None, topic.id):
                raise TopicError(UNKNOWN_TOPIC_ID, "This server has no topic with that id.")
            self._write_down((), [topic.id])
            del self._by_name[name]
            del self._by_id[topic.id]
            self._version += 1
            self._release(topic)
            self._delete_logs(topic)
            return topic

    def refuse_changes(self) -> None:
        """Make and delete no topics from now on; what is under way ends soon. Does not block."""
        self._is_closed = True

    def close(self) -> None:
        """`refuse_changes`, then close every log, even if closing another one fails."""
        self.refuse_changes()
        with self._lock:
            close_all(partition for topic in self.all() for partition in topic.partitions)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise TopicError(BROKER_NOT_AVAILABLE, "this broker is stopped")

    def _reserve(self, topic: Topic) -> None:
        """Reserve the topic's name."""
        self._reserved.add(topic.name)
        if not _COLLIDING.isdisjoint(topic.name):
            self._by_folded.setdefault(_folded(topic.name), []).append(topic.name)

    def _publish(self, topic: Topic) -> None:
        """Let clients find the topic."""
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._version += 1

    def _release(self, topic: Topic) -> None:
        """Give up the topic's name."""
        self._reserved.discard(topic.name)
        self._partition_count -= len(topic.partitions)
        names = self._by_folded.get(_folded(topic.name), [])
        if topic.name in names:
            names.remove(topic.name)
            if not names:
                del self._by_folded[_folded(topic.name)]

    def _refuse_too_many(self, added_count: int) -> None:
        most = self._config.max_partitions
        if self._partition_count + added_count > most:
            raise TopicError(
                POLICY_VIOLATION,
                f"{added_count:,} partitions more; there are {self._partition_count:,}, and "
                f"max_partitions is {most:,}",
            )

    def _write_down(self, changed: Sequence[SavedTopic], deleted: Sequence[bytes] = ()) -> None:
        if self._on_change is not None and (changed or deleted):
            self._on_change(changed, deleted)

    def _add_partition(
        self, topic: Topic, saved: SavedPartition, is_restored: bool = False
    ) -> Partition:
        """Open the logs of a partition; the leader epoch of a restored one grows (B-C8.6)."""
        partition = None
        if len(saved.replicas) > 1 or saved.isr is not None:
            partition = self._open_replicas(topic, saved, self._live)
        index = len(topic.partitions)
        if partition is None:
            log = self._open_log(topic.name, index, topic.id, topic.config)
            partition = Partition(topic.name, index, log, saved.replicas, 0, self._live)
        partition.adding, partition.removing = saved.adding, saved.removing
        partition.reconfigure(topic.config)
        # A crash may have come before a move of the leader was written down.
        newest = max(saved.leader_epoch, partition.latest_epoch)
        partition.begin(newest + 1 if is_restored else saved.leader_epoch)
        topic.partitions.append(partition)
        self._partition_count += 1
        return partition

    def _topic_config(self, overrides: Mapping[str, str | None] | None) -> TopicConfig:
        return TopicConfig(self._config, overrides) if overrides else self._plain_config

    def _checked_count(self, partition_count: int) -> int:
        count = self._config.num_partitions if partition_count == -1 else partition_count
        if not 1 <= count <= MAX_PARTITION_COUNT:
            raise TopicError(
                INVALID_PARTITIONS,
                f"{count:,} partitions; a topic has from 1 to {MAX_PARTITION_COUNT:,}",
            )
        return count

    def _checked_factor(self, factor: int) -> int:
        """How many replicas there will be."""
        if factor == -1:
            factor = self._config.default_replication_factor
        node_count = len(self._node_ids)
        if factor < 1 or (factor > node_count and not self._config.clamp_replication):
            raise TopicError(
                INVALID_REPLICATION_FACTOR,
                f"replication factor {factor}; this cluster has {node_count} node(s)",
            )
        return min(factor, node_count)


def _folded(name: str) -> str:
    """The spelling that names have in common if they differ in dots and underscores only."""
    return name.replace(".", "_")
