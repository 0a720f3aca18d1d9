"""Replication: what keeps the replicas of all partitions alike, and knows which are in sync."""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from fastprod.broker.cluster.partition import Decision
from fastprod.broker.replica.reachability import Reachability
from fastprod.broker.replica.replica_fetcher import ReplicaFetcher
from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.replica.replicated_partition import ReplicaSettings, ReplicatedPartition
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory

if TYPE_CHECKING:
    from fastprod.broker.replica.high_watermark_checkpoints import Offsets

_log = logging.getLogger(__name__)

_NS_PER_MS = 1_000_000

Plan = Callable[[], Decision | None]
"""What is to be decided of a partition; None: nothing."""

Decide = Callable[[ReplicatedPartition, Plan], object]
"""Writes down what is decided of a partition, has it hold, and wakes who waits for that:
`Cluster.decide`."""


class Replication:
    """The fetchers of all nodes, and the check of who lags. Any thread.

    Nothing runs before a partition with several replicas has something to fetch.

    Args:
        node_ids: all nodes.
        clock: the broker's: how long a follower lags is measured by it.
        most_lag_ms: `replica.lag.time.max.ms`.
        fetch_bytes: `replica.fetch.max.bytes`.
        advanced: called with a partition, without a lock, whose high watermark may have moved.
        open_log: makes the log of a replica that a reassignment adds: topic, partition, node.
    """

    def __init__(
        self,
        node_ids: Sequence[int],
        clock: Clock,
        most_lag_ms: int,
        fetch_bytes: int,
        advanced: Callable[[ReplicatedPartition], object],
        open_log: Callable[[str, int, int], ReplicaLog],
    ) -> None:
        self.reachability = Reachability()
        self._settings = ReplicaSettings(
            self.reachability,
            clock.monotonic_ns,
            most_lag_ms * _NS_PER_MS,
            fetch_bytes,
            self._changed,
            open_log,
        )
        self._fetchers = {id: ReplicaFetcher(id, self._fetch) for id in node_ids}
        self._advanced = advanced
        self._decide: Decide = lambda partition, plan: None
        self._check_ms = max(most_lag_ms / 2, 1)
        self._timer = DelayedOperationPurgatory("fastprod-broker-replica-timer", clock, _failed)
        self._lock = threading.Lock()
        # Weak: a deleted one is freed.
        self._partitions: weakref.WeakSet[ReplicatedPartition] = weakref.WeakSet()
        # Partitions of which a follower may lag.
        self._watched: dict[ReplicatedPartition, None] = {}
        self._is_check_planned = False
        # Those of which it could not be written down who is in sync.
        self._postponed: weakref.WeakSet[ReplicatedPartition] = weakref.WeakSet()
        self._is_closed = False

    def decide_by(self, decide: Decide) -> None:
        """Have the controller decide who is in sync."""
        self._decide = decide

    def new_partition(
        self,
        topic: str,
        index: int,
        logs: dict[int, ReplicaLog],
        live: Collection[int],
        isr: Sequence[int] | None,
        is_unclean_enabled: bool,
    ) -> ReplicatedPartition:
        """Make a partition; `begin` lets its followers fetch."""
        made = ReplicatedPartition(
            topic, index, logs, live, isr, self._settings, is_unclean_enabled
        )
        with self._lock:
            self._partitions.add(made)
        return made

    def _all(self) -> list[ReplicatedPartition]:
        with self._lock:
            return [each for each in self._partitions if not each.is_deleted]

    def high_watermarks(self) -> Mapping[int, Offsets]:
        """Those of all replicas, by node."""
        found: dict[int, dict[tuple[str, int], int]] = {id: {} for id in self._fetchers}
        for partition in self._all():
            for node_id, offset in partition.high_watermarks():
                found[node_id][partition.topic, partition.index] = offset
        return found

    def run_later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Call `action` on the timer's thread after `delay_ms`, or at the end."""
        self._timer.run_later(delay_ms, action)

    def retry_later(self, delay_ms: float, action: Callable[[], None]) -> bool:
        """Call `action` on the timer's thread after `delay_ms`, but not when the broker ends; see
        `DelayedOperationPurgatory.retry_later`.
        """
        return self._timer.retry_later(delay_ms, action)

    def node_changed(self, node_id: int, lives: bool) -> None:
        """Note that a node is up or down; its partitions are told afterwards."""
        reach, node = self.reachability, {node_id}
        reach.down = reach.down - node if lives else reach.down | node
        reach.cut_off -= node

    def cut_off(self, node_id: int) -> None:
        """Have a node hear nothing of the others and of the controller, until it is up again."""
        self.reachability.cut_off |= {node_id}

    def set_fetching(self, node_id: int, fetches: bool) -> None:
        """Have the replicas of a node fetch nothing, or again what they lack."""
        reach, node = self.reachability, {node_id}
        reach.not_fetching = reach.not_fetching - node if fetches else reach.not_fetching | node
        if fetches:
            for partition in self._all():
                self._changed(partition)

    def begin_close(self) -> None:
        """Let nobody fetch any more; does not wait. May be repeated."""
        self._is_closed = True
        for fetcher in self._fetchers.values():
            fetcher.begin_close()

    def close(self) -> None:
        """End the threads. May be repeated.

        Raises:
            TimeoutError: one has not ended within 10 s.
        """
        self.begin_close()
        with contextlib.ExitStack() as steps:
            steps.callback(self._timer.close)
            for fetcher in self._fetchers.values():
                steps.callback(fetcher.close)

    def _changed(self, partition: ReplicatedPartition) -> None:
        """Wake the followers; the partition's lock may be held."""
        leader = partition.leader
        for node_id in partition.replicas:
            if node_id != leader:
                self._fetchers[node_id].mark(partition)

    def _fetch(self, partition: ReplicatedPartition, node_id: int) -> bool:
        done = partition.fetch(node_id)
        if done.joins:
            self._join(partition, node_id)
        if done.advanced:
            self._changed(partition)
            self._advanced(partition)
        self._watch(partition)
        return done.goes_on

    def _join(self, partition: ReplicatedPartition, node_id: int) -> None:
        """Have a follower that has caught up be in sync."""
        if partition in self._postponed:
            return
        try:
            self._decide(partition, lambda: partition.plan_expanded(node_id))
        except OSError as error:
            _log.error("%s: node %d is not in sync yet: %s", partition, node_id, error)
            self._postponed.add(partition)
            if not self._timer.retry_later(self._check_ms, lambda: self._join_again(partition)):
                self._postponed.discard(partition)

    def _join_again(self, partition: ReplicatedPartition) -> None:
        self._postponed.discard(partition)
        self._changed(partition)

    def _shrink(self, partition: ReplicatedPartition) -> None:
        """Drop followers that lag, once that is written down."""
        try:
            self._decide(partition, partition.plan_shrunk)
        except OSError as error:
            _log.error("%s waits for followers that lag: %s", partition, error)

    def _watch(self, partition: ReplicatedPartition) -> None:
        """Look after half of the longest lag whether a follower lags."""
        if partition in self._watched or self._is_closed:
            return
        with self._lock:
            self._watched[partition] = None
            is_planned, self._is_check_planned = self._is_check_planned, True
        if not is_planned:
            self._timer.run_later(self._check_ms, self._check)

    def _check(self) -> None:
        """Drop followers that lag (the task isr-expiration)."""
        with self._lock:
            watched, self._watched = self._watched, {}
            self._is_check_planned = False
        for partition in watched:
            if partition.is_deleted or self._is_closed:
                continue
            self._shrink(partition)
            has_moved, is_waited_for = partition.go_on()
            if has_moved:
                self._changed(partition)
                self._advanced(partition)
            if is_waited_for:
                self._watch(partition)


def _failed(error: BaseException) -> None:
    _log.error("the timer of the replicas has failed", exc_info=error)
