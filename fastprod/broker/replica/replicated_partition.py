"""ReplicatedPartition: a partition with a log for each replica (Kafka's Partition, ReplicaManager).

What the controller decides is in the attributes that `Partition` has. Each replica has besides what
its own node was told: a node that is cut off may believe for long that it leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.cluster.elections import Election, elect
from fastprod.broker.cluster.partition import (
    NO_NODE,
    AppendedAt,
    Decision,
    NotEnoughReplicas,
    NotLeader,
    Partition,
    PartitionDeleted,
    SavedPartition,
)
from fastprod.broker.cluster.reassignment import begun, completed
from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import AppendInfo, Log, LogError, OffsetOutOfRange
from fastprod.broker.replica.reachability import Reachability
from fastprod.broker.replica.replica import PartitionState, Replica
from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.replica.truncation import truncate_to_leader
from fastprod.error_codes import (
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log = logging.getLogger(__name__)


class ReplicaSettings(NamedTuple):
    """What the partitions of a cluster have in common.

    Attributes:
        reachability: which nodes hear one another.
        now_ns: the broker's clock.
        most_lag_ns: how long a follower may lag and be in sync (`replica.lag.time.max.ms`).
        fetch_bytes: of one fetch of a follower (`replica.fetch.max.bytes`).
        changed: called with a partition whose followers may have something to fetch; its lock may
            be held.
        open_log: makes the log of a further replica: topic, partition, node.
    """

    reachability: Reachability
    now_ns: Callable[[], int]
    most_lag_ns: int
    fetch_bytes: int
    changed: Callable[[ReplicatedPartition], None]
    open_log: Callable[[str, int, int], ReplicaLog]


class Fetched(NamedTuple):
    """What a follower's fetch has done.

    Attributes:
        goes_on: there may be more to fetch.
        advanced: the leader's high watermark has moved.
        joins: the follower has caught up, and is not in sync yet.
    """

    goes_on: bool
    advanced: bool = False
    joins: bool = False


_NOTHING = Fetched(False)
_UNTOLD = PartitionState(NO_NODE, -1, ())


class ReplicatedPartition(Partition):
    """A partition with several replicas. Threads and locks as `Partition`.

    Attributes:
        log: of the replica that leads, or led last.

    Args:
        topic: its topic's name.
        index: its number in the topic.
        logs: of each replica, by node; the preferred leader first.
        live: nodes that are up.
        isr: replicas in sync; None: all that are up.
        settings: of all partitions.
        is_unclean_enabled: whether a replica may lead that is not in sync, rather than none.
    """

    __slots__ = ("__weakref__", "_by_node", "_joining", "_settings", "is_unclean_enabled")

    is_replicated = True

    def __init__(
        self,
        topic: str,
        index: int,
        logs: dict[int, ReplicaLog],
        live: Collection[int],
        isr: Sequence[int] | None,
        settings: ReplicaSettings,
        is_unclean_enabled: bool,
    ) -> None:
        nodes = list(logs)
        super().__init__(topic, index, logs[nodes[0]], nodes)
        self._settings = settings
        self._joining = NO_NODE
        self.is_unclean_enabled = is_unclean_enabled
        in_sync = [each for each in nodes if each in (live if isr is None else isr)]
        self.leader, self.isr = elect(nodes, in_sync or nodes, live, False)
        # Replaced as a whole: some readers take no lock.
        self._by_node = {id: Replica(id, log, _UNTOLD) for id, log in logs.items()}

    # What nodes ask of their replicas.

    def begin(self, leader_epoch: int) -> None:
        with self.lock:
            self.leader_epoch = leader_epoch
            self._tell()

    @property
    def latest_epoch(self) -> int:
        return max(each.log.latest_epoch for each in self._by_node.values())

    def saved(self, decision: Decision | None = None) -> SavedPartition:
        found = decision or self.decided()
        return SavedPartition(
            found.replicas, found.leader_epoch, found.isr, found.adding, found.removing
        )

    def logs(self) -> list[Log]:
        return [each.log for each in self._by_node.values()]

    def high_watermarks(self) -> list[tuple[int, int]]:
        """Of each replica its node and the high watermark that it knows."""
        return [(id, each.log.high_watermark) for id, each in self._by_node.items()]

    def leads(self, node_id: int) -> bool:
        replica = self._by_node.get(node_id)
        return replica is not None and replica.is_leader and self._reach.lives(node_id)

    def log_at(self, node_id: int) -> Log:
        replica = self._by_node.get(node_id)
        return self.log if replica is None else replica.log

    def epoch_at(self, node_id: int) -> int:
        replica = self._by_node.get(node_id)
        return self.leader_epoch if replica is None else replica.state.leader_epoch

    def is_settled_at(self, node_id: int) -> bool:
        replica = self._by_node.get(node_id)
        return replica is None or replica.log.high_watermark >= replica.epoch_start_offset

    def check_isr(self, node_id: int) -> None:
        replica = self._by_node.get(node_id)
        isr = self.isr if replica is None else replica.state.isr
        if len(isr) < self.min_isr:
            raise NotEnoughReplicas(len(isr), self.min_isr)

    def append_at(
        self,
        node_id: int,
        batch: Buffer,
        info: BatchInfo | None,
        needs_isr: bool,
        is_verified: bool = False,
    ) -> tuple[AppendInfo, int]:
        with self.lock:
            if self.is_deleted:
                raise PartitionDeleted(f"{self.topic}-{self.index} was deleted")
            leader = self._by_node.get(node_id)
            if leader is None or not self.leads(node_id):
                raise NotLeader(f"node {node_id} does not lead {self.topic}-{self.index} any more")
            if needs_isr:
                self.check_isr(node_id)
            self._keep_caught_up(leader)
            epoch = leader.state.leader_epoch
            done = leader.log.append(batch, epoch, info, is_verified)
            self._advance(leader)
        self._settings.changed(self)
        return done, epoch

    def append_replicated(self, batch: Buffer, info: BatchInfo | None = None) -> AppendedAt:
        """Append a batch of a coordinator; followers in sync that fetch have it on return.

        Raises:
            NotEnoughReplicas: as `check_isr`.
            LogError: the log refuses it, or nobody leads (56).
            PartitionDeleted: the topic has been deleted.
        """
        with self.lock:
            self.check_isr(self.leader)
            return self._append_everywhere(
                lambda log, epoch: log.append(batch, epoch, info, is_verified=True)
            )

    def append_marker(self, marker: EndTransactionMarker) -> AppendedAt:
        """End a transaction; followers in sync that fetch have the marker when this returns.

        Raises:
            LogError: the log refuses it, or nobody leads (56).
            PartitionDeleted: the topic has been deleted.
        """
        with self.lock:
            return self._append_everywhere(lambda log, epoch: log.append_marker(marker, epoch))

    def _append_everywhere(self, append: Callable[[Log, int], AppendInfo]) -> AppendedAt:
        """Append to the leader's log, and have those in sync fetch it now; the lock is held."""
        if self.is_deleted:
            raise PartitionDeleted(f"{self.topic}-{self.index} was deleted")
        leader = self._by_node.get(self.leader)
        if leader is None or not self.leads(self.leader):
            raise LogError(KAFKA_STORAGE_ERROR, f"nobody leads {self.topic}-{self.index}")
        epoch = leader.state.leader_epoch
        end_offset = append(leader.log, epoch).last_offset + 1
        fetched = [each for each in self.isr if each != leader.node_id and self._catch_up(each)]
        for node_id in fetched:
            now_ns = self._settings.now_ns()
            leader.followers[node_id].fetched(end_offset, end_offset, now_ns)
        self._advance(leader)
        for node_id in fetched:
            self._learn(self._by_node[node_id], leader)
        if len(fetched) < len(leader.followers):
            self._settings.changed(self)
        return AppendedAt(leader.node_id, epoch, end_offset)

    def reconfigure(self, config: TopicConfig) -> None:
        with self.lock:
            super().reconfigure(config)
            self.is_unclean_enabled = config.text("unclean.leader.election.enable") == "true"
            leader = self._by_node.get(self.leader)
            if leader is None or not leader.is_leader:
                return
            self._advance(leader)
        self._settings.changed(self)

    def delete_records_at(self, node_id: int, offset: int) -> int:
        start_offset = super().delete_records_at(node_id, offset)
        with self.lock:
            for each in self.isr:
                # They learn where the log begins; the others do at their next fetch.
                if each != node_id:
                    self._catch_up(each)
        self._settings.changed(self)
        return start_offset

    def error_of_append(self, node_id: int, epoch: int, end_offset: int) -> int | None:
        with self.lock:
            if self.is_deleted:
                return UNKNOWN_TOPIC_OR_PARTITION
            leader = self._by_node.get(node_id)
            if leader is None or not self.leads(node_id) or leader.state.leader_epoch != epoch:
                return NOT_LEADER_OR_FOLLOWER
            if leader.log.high_watermark < end_offset:
                return None
            has_enough = len(leader.state.isr) >= self.min_isr
            return NONE if has_enough else NOT_ENOUGH_REPLICAS_AFTER_APPEND

    @property
    def _reach(self) -> Reachability:
        return self._settings.reachability

    def _keep_caught_up(self, leader: Replica) -> None:
        """Note who has everything now: a fetch of each of them waits at the end of the log."""
        now_ns, end_offset = self._settings.now_ns(), leader.log.log_end_offset
        for node_id, follower in leader.followers.items():
            if follower.log_end_offset == end_offset and self._fetches(node_id, leader.node_id):
                follower.fetched(end_offset, end_offset, now_ns)

    def _fetches(self, node_id: int, leader_id: int) -> bool:
        reach = self._reach
        return node_id not in reach.not_fetching and reach.connects(node_id, leader_id)

    def _advance(self, leader: Replica) -> bool:
        """Move the high watermark to what all replicas in sync have; whether it moved.

        It waits, too, for those that have caught up and are not in sync yet, and for who is about
        to be: nothing is acknowledged between the decision and the moment in which it holds that
        the one in question lacks (Kafka's maximal ISR). With fewer than `min.insync.replicas` it
        stands still (KIP-966).
        """
        isr = leader.state.isr
        if len(isr) < self.min_isr:
            return False
        end_offset = new = leader.log.log_end_offset
        now_ns, most_lag_ns = self._settings.now_ns(), self._settings.most_lag_ns
        waited_for = (*isr, self._joining)
        for node_id, follower in leader.followers.items():
            if node_id in waited_for or (
                self._reach.hears_controller(node_id)
                and follower.is_caught_up(end_offset, now_ns, most_lag_ns)
            ):
                new = min(new, follower.log_end_offset)
        return leader.log.raise_high_watermark(new)

    # Followers.

    def followers_of(self, node_id: int) -> list[int]:
        """Nodes that follow, if `node_id` leads."""
        return [each for each in self._by_node if each != node_id]

    def fetch(self, node_id: int) -> Fetched:
        """Have a follower fetch once from its leader (ReplicaFetcherThread).

        The leader learns from where it fetches, which is what it has; it learns the leader's high
        watermark.

        Raises:
            LogError: a log's files cannot be read or written.
        """
        with self.lock:
            follower = self._by_node.get(node_id)
            leader = None if follower is None else self._leader_of(follower)
            if follower is None or leader is None:
                return _NOTHING
            if follower.needs_truncation:
                truncate_to_leader(follower.log, leader.log)
                follower.needs_truncation = False
            start_offset = leader.log.log_start_offset
            if follower.log.log_end_offset < start_offset:
                follower.log.truncate_fully_and_start_at(start_offset)
            offset, end_offset = follower.log.log_end_offset, leader.log.log_end_offset
            known = leader.followers[node_id]
            known.fetched(offset, end_offset, self._settings.now_ns())
            advanced = self._advance(leader)
            joins = self._may_join(leader, node_id)
            states = follower.state, leader.state
            if offset >= end_offset:
                learns = self._learn(follower, leader)
                return Fetched(learns, advanced, joins)
        try:
            parts = leader.log.read(offset, self._settings.fetch_bytes, True, end_offset)
        except OffsetOutOfRange:
            # The leader's log was shortened meanwhile, by retention maybe, which wakes nobody.
            return Fetched(True, advanced, joins)
        with self.lock:
            if (
                (follower.state, leader.state) != states
                or follower.log.log_end_offset != offset
                or self._by_node.get(node_id) is not follower
                or self._leader_of(follower) is not leader
            ):
                return Fetched(True, advanced, joins)
            for part in parts:
                follower.log.append_as_follower(part)
            self._learn(follower, leader)
        return Fetched(bool(parts), advanced, joins)

    def _leader_of(self, follower: Replica) -> Replica | None:
        """The replica that answers a follower's fetch: both know of the same epoch."""
        state = follower.state
        leader = self._by_node.get(state.leader)
        if leader is None or leader is follower or self.is_deleted:
            return None
        if not self._fetches(follower.node_id, leader.node_id):
            return None
        is_same = leader.is_leader and leader.state.leader_epoch == state.leader_epoch
        return leader if is_same else None

    def _learn(self, follower: Replica, leader: Replica) -> bool:
        """Take over the leader's high watermark and start; whether there was news."""
        has_moved = follower.log.raise_high_watermark(leader.log.high_watermark)
        start_offset = min(leader.log.log_start_offset, follower.log.high_watermark)
        if start_offset > follower.log.log_start_offset:
            follower.log.delete_records(start_offset)
        return has_moved

    # Replicas in sync.

    def _may_join(self, leader: Replica, node_id: int) -> bool:
        offset = leader.followers[node_id].log_end_offset
        return (
            node_id not in leader.state.isr
            and offset >= max(leader.log.high_watermark, leader.epoch_start_offset)
            and self._reach.connects(node_id, leader.node_id)
        )

    def plan_expanded(self, node_id: int) -> Decision | None:
        """Have a follower that has caught up be in sync; None: it has not, or is already.

        It may be the last one that a reassignment waits for.
        """
        with self.lock:
            leader = self._by_node.get(self.leader)
            if leader is None or node_id not in leader.followers or node_id in self.isr:
                return None
            if not leader.is_leader or not self._may_join(leader, node_id):
                return None
            self._joining = node_id  # `take` or `undecided` ends that
            decision = self._in_sync_are([*self.isr, node_id])
            live = [each for each in self.replicas if self._reach.hears_controller(each)]
            return completed(decision, live)

    def go_on(self) -> tuple[bool, bool]:
        """Wait no longer for who is not in sync and has lagged for too long.

        Returns:
            Whether the high watermark has moved, and whether a follower is waited for all the same.
        """
        with self.lock:
            leader = self._by_node.get(self.leader)
            if leader is None:
                return False, False
            has_moved = leader.is_leader and self._advance(leader)
            in_sync = [each for id, each in leader.followers.items() if id in self.isr]
            end_offset = leader.log.log_end_offset
            is_behind = leader.log.high_watermark < end_offset and len(self.isr) >= self.min_isr
            return has_moved, is_behind or any(e.log_end_offset != end_offset for e in in_sync)

    def plan_shrunk(self) -> Decision | None:
        """Drop followers that lag for too long; None: there are none.

        They are waited for until that is written down: as long as a restart could find such a
        follower in sync, and have it lead, nothing is acknowledged without it.
        """
        with self.lock:
            leader = self._by_node.get(self.leader)
            if leader is None or not leader.is_leader:
                return None
            if not self._reach.hears_controller(leader.node_id):
                return None
            now_ns, most_lag_ns = self._settings.now_ns(), self._settings.most_lag_ns
            end_offset = leader.log.log_end_offset
            late = [
                node_id
                for node_id, each in leader.followers.items()
                if node_id in self.isr and not each.is_caught_up(end_offset, now_ns, most_lag_ns)
            ]
            if not late:
                return None
            return self._in_sync_are([each for each in self.isr if each not in late])

    def _in_sync_are(self, nodes: Collection[int]) -> Decision:
        isr = [each for each in self.replicas if each in nodes]
        return self.decided()._replace(isr=isr)

    def _catch_up(self, node_id: int) -> bool:
        """Have a follower fetch all that its leader has; whether it has. The lock is held."""
        follower = self._by_node[node_id]
        leader = self._leader_of(follower)
        if leader is None:
            return False
        try:
            if follower.needs_truncation:
                truncate_to_leader(follower.log, leader.log)
                follower.needs_truncation = False
            while (offset := follower.log.log_end_offset) < leader.log.log_end_offset:
                end_offset = leader.log.log_end_offset
                parts = leader.log.read(offset, self._settings.fetch_bytes, True, end_offset)
                if not parts:
                    return False
                for part in parts:
                    follower.log.append_as_follower(part)
            self._learn(follower, leader)
        except LogError as error:
            _log.error("node %d cannot catch up with %s: %s", node_id, self, error)
            return False
        return True

    # What the controller decides.

    def plan_down(
        self, node_id: int, live: Collection[int], up: Collection[int], moves_leader: bool
    ) -> Decision | None:
        with self.lock:
            if self.leader == node_id and not moves_leader:
                return self._led_by(Election(NO_NODE, self.isr))
            isr = [each for each in self.isr if each != node_id] or self.isr
            if self.leader == node_id:
                found = elect(self.replicas, isr, live, self.is_unclean_enabled)
                if found.leader in self.isr:
                    # If `node_id` still lives nothing is lost, even if this cannot be written down.
                    self._catch_up(found.leader)
                return self._led_by(found)
            return None if isr == self.isr else self.decided()._replace(isr=isr)

    def plan_up(self, node_id: int, live: Collection[int]) -> Decision | None:
        if node_id not in self._by_node:
            return None
        with self.lock:
            self._by_node[node_id].needs_truncation = True
            before = now = self.decided()
            if self.leader == NO_NODE:
                found = elect([node_id, *self.replicas], self.isr, live, self.is_unclean_enabled)
                now = now if found.leader == NO_NODE else self._led_by(found)
            now = completed(now, live)
            return None if now is before else now

    def plan_leader(self, node_id: int, live: Collection[int]) -> Decision:
        """Let another replica lead, or none (-1).

        One that is in sync has everything then. One that is not loses what it lacks.

        Raises:
            ValueError: the node has no replica, or is down.
        """
        if node_id != NO_NODE and node_id not in self._by_node:
            raise ValueError(f"node {node_id} has no replica of {self.topic}-{self.index}")
        if node_id != NO_NODE and node_id not in live:
            raise ValueError(f"node {node_id} is down, and cannot lead a partition with replicas")
        isr = self.isr if node_id in (*self.isr, NO_NODE) else [node_id]
        return self._led_by(Election(node_id, isr))

    def _led_by(self, found: Election) -> Decision:
        return self.decided()._replace(
            leader=found.leader, leader_epoch=self.leader_epoch + 1, isr=found.isr
        )

    def plan_reassigned(self, target: Sequence[int], live: Collection[int]) -> Decision:
        return completed(begun(self.decided(), target), live)

    def take(self, decision: Decision) -> None:
        opened = self._open_further(decision.replicas)
        with self.lock:
            if decision.leader_epoch != self.leader_epoch and decision.leader in self.isr:
                # From a leader that lives it fetches what came while this was written down.
                self._catch_up(decision.leader)
            there = {**self._by_node, **opened}
            self._by_node = {id: there.pop(id) for id in decision.replicas if id in there}
            self._joining = NO_NODE
            self._note(decision)
            self._tell()
        for gone in there.values():
            try:
                gone.log.delete()
            except LogError as error:
                _log.error("files of node %d of %s stay: %s", gone.node_id, self, error)

    def undecided(self) -> None:
        with self.lock:
            self._joining = NO_NODE

    def _open_further(self, nodes: Sequence[int]) -> dict[int, Replica]:
        """Begin a log on each of these nodes that has none."""
        opened = {}
        for node_id in nodes:
            if node_id not in self._by_node:
                try:
                    log = self._settings.open_log(self.topic, self.index, node_id)
                    opened[node_id] = Replica(node_id, log, _UNTOLD)
                except (LogError, OSError) as error:
                    # It is not in sync, and waited for until it is asked for again, or cancelled.
                    _log.error("node %d cannot begin a log of %s: %s", node_id, self, error)
        return opened

    def _tell(self) -> None:
        state = PartitionState(self.leader, self.leader_epoch, tuple(self.isr))
        for replica in self._by_node.values():
            if self._reach.hears_controller(replica.node_id):
                self._apply(replica, state)
        leader = self._by_node.get(self.leader)
        if leader is not None:
            self.log = leader.log
            self._advance(leader)
        self._settings.changed(self)

    def _apply(self, replica: Replica, state: PartitionState) -> None:
        is_new = state.leader_epoch > replica.state.leader_epoch
        replica.state = state
        if is_new and replica.is_leader:
            try:
                replica.begin_leading(self.followers_of(replica.node_id), self._settings.now_ns())
            except LogError as error:
                _log.error("%s: %s", self, error)
        elif is_new:
            replica.begin_following()
        elif replica.is_leader:
            replica.know_followers(self.followers_of(replica.node_id))

    def sync_isr(self, live: Collection[int]) -> None:
        """Tell nodes that did not hear it what holds; followers come into sync by fetching."""
        with self.lock:
            self._tell()

    def delete(self, removes_files: bool = True) -> None:
        with self.lock:
            self.is_deleted = True
            for replica in self._by_node.values():
                replica.log.delete(removes_files)

    def close(self) -> None:
        with self.lock:
            for replica in self._by_node.values():
                replica.log.close()
