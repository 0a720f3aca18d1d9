"""What the nodes of one cluster share: identity, addresses, who is up, who leads."""

from __future__ import annotations

import binascii
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fastprod.broker.cluster.partition import NO_NODE, Decision, Partition
from fastprod.broker.cluster.replica_assignment import check_nodes
from fastprod.broker.cluster.topic_error import TopicError
from fastprod.broker.cluster.topics import Topics
from fastprod.error_codes import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
)

_log = logging.getLogger(__name__)


class NodeAddress(NamedTuple):
    """Where clients reach a node.

    Attributes:
        id: of the node.
        host: for clients of its first listener.
        port: likewise.
        endpoints: names of all listeners to what their clients are told: (host, port).
    """

    id: int
    host: str
    port: int
    endpoints: Mapping[str, tuple[str, int]] = MappingProxyType({})

    def seen_from(self, listener_name: str) -> NodeAddress:
        """The address for a client that came by a listener."""
        host, port = self.endpoints.get(listener_name, (self.host, self.port))
        return self._replace(host=host, port=port)


def new_cluster_id() -> str:
    """Return 22 random characters, as Kafka's cluster ids are."""
    text = binascii.b2a_base64(os.urandom(16), newline=False).decode("ascii")
    return text.rstrip("=").replace("+", "-").replace("/", "_")


RETRY_MS = 1000
"""After so long the controller tries again to write down what follows from a node's coming or
going."""


class _NodeChange(NamedTuple):
    """A node has come or gone, and what follows from that is not written down yet."""

    is_up: bool
    moves_leaders: bool = True

    def plan(
        self, partition: Partition, node_id: int, live: Collection[int], up: Collection[int]
    ) -> Decision | None:
        if self.is_up:
            return partition.plan_up(node_id, live)
        return partition.plan_down(node_id, live, up, self.moves_leaders)


class Cluster:
    """The nodes, and which of them are up; the controller. Any thread.

    What it decides of partitions is written down before a node learns of it: a restart never finds
    a leader or replicas in sync that are older than what a record was acknowledged by. What cannot
    be written down does not hold. Of a node that comes or goes it is tried again.

    Args:
        cluster_id: its name for itself.
        node_ids: every node that there can be; the addresses come with `node_up`.
        topics: shared by all nodes.
        on_node: called with a node and whether it lives, before its partitions are.
        retry_later: has a function called after so many milliseconds, on another thread; whether
            that is planned.
    """

    def __init__(
        self,
        cluster_id: str,
        node_ids: Sequence[int],
        topics: Topics,
        on_node: Callable[[int, bool], None] = lambda node_id, lives: None,
        retry_later: Callable[[float, Callable[[], None]], bool] = lambda delay_ms, retry: False,
    ) -> None:
        self.cluster_id = cluster_id
        self.node_ids = tuple(node_ids)
        self.topics = topics
        self._on_node = on_node
        self._retry_later = retry_later
        self._moved: Callable[[], None] = lambda: None
        self._decided: Callable[[Partition], object] = lambda partition: None
        self._lock = threading.Lock()
        # Replaced as a whole, so that readers take no lock.
        self._up: dict[int, NodeAddress] = {}
        # What follows from these is not written down yet.
        self._unsettled: dict[int, _NodeChange] = {}
        self._is_retry_planned = False

    def addresses(self, listener_name: str) -> list[NodeAddress]:
        """Nodes that are up, by id, as a client of a listener reaches them."""
        return [each.seen_from(listener_name) for each in self._up.values()]

    def address(self, node_id: int, listener_name: str) -> NodeAddress | None:
        """Where a client of a listener reaches a node, or None if it is down."""
        found = self._up.get(node_id)
        return None if found is None else found.seen_from(listener_name)

    def is_up(self, node_id: int) -> bool:
        """Whether the node serves."""
        return node_id in self._up

    @property
    def controller_id(self) -> int:
        """The node that makes and deletes topics: the first that is up; -1: none is."""
        return next(iter(self._up), NO_NODE)

    def when_moved(self, wake_all: Callable[[], None], wake: Callable[[Partition], object]) -> None:
        """Have those woken, without a lock, who wait for what is decided.

        Args:
            wake_all: called when leaders have moved by themselves: on another try, or at the end of
                a reassignment.
            wake: called with a partition of which something else was decided: fewer replicas may
                be waited for.
        """
        self._moved, self._decided = wake_all, wake

    def node_up(self, address: NodeAddress) -> list[Partition]:
        """Note that a node is up; returns the partitions that it leads again.

        Raises:
            OSError: new leaders cannot be written down; that is tried again.
        """
        with self._retrying(), self._lock:
            up = {**self._up, address.id: address}
            self._up = dict(sorted(up.items()))
            self._set_live(address.id, True)
            self._on_node(address.id, True)
            return self._settle(address.id, _NodeChange(is_up=True))

    def node_down(
        self, node_id: int, move_leaders: bool, hands_over: bool = True, lives: bool = False
    ) -> list[Partition]:
        """Note that a node is down; returns the partitions that it led.

        Args:
            node_id: which.
            move_leaders: let other nodes lead them; else they have no leader until it is back.
            hands_over: partitions with replicas: who leads next fetches all of it before.
            lives: it serves clients, and is only cut off from the other nodes.

        Raises:
            OSError: new leaders cannot be written down; that is tried again.
        """
        with self._retrying(), self._lock, contextlib.ExitStack() as steps:
            self._up = {id: each for id, each in self._up.items() if id != node_id}
            self._set_live(node_id, False)
            if hands_over and not lives:
                steps.callback(self._on_node, node_id, False)
            elif not lives:
                self._on_node(node_id, False)
            return self._settle(node_id, _NodeChange(False, move_leaders))

    def move_leader(self, partition: Partition, node_id: int) -> int:
        """Let another node lead a partition, or none (-1); returns the new leader epoch.

        Raises:
            OSError: it cannot be written down; nothing has changed.
            ValueError: the node cannot lead a partition with replicas.
        """
        with self._lock:
            self.topics.decide({partition: partition.plan_leader(node_id, self.topics.live)})
            return partition.leader_epoch

    def elect_leader(self, partition: Partition, is_unclean: bool) -> int:
        """Have the preferred replica lead or, if nobody leads, one that is not in sync.

        Returns:
            NONE, or Kafka's code: why nothing has changed.

        Raises:
            OSError: as `move_leader`.
        """
        with self._lock:
            live = self.topics.live
            if is_unclean:
                if partition.leader in live:
                    return ELECTION_NOT_NEEDED
                able = [each for each in partition.replicas if each in live]
                if not able:
                    return ELIGIBLE_LEADERS_NOT_AVAILABLE
                leader = next((each for each in able if each in partition.isr), able[0])
            else:
                leader = partition.replicas[0]
                if partition.leader == leader:
                    return ELECTION_NOT_NEEDED
                if leader not in live or leader not in partition.isr:
                    return PREFERRED_LEADER_NOT_AVAILABLE
            self.topics.decide({partition: partition.plan_leader(leader, live)})
            return NONE

    def decide(self, partition: Partition, plan: Callable[[], Decision | None]) -> None:
        """Have what `plan` decides of a partition hold, and wake who waits for that.

        Args:
            partition: which.
            plan: called when nobody else decides; None: nothing changes.

        Raises:
            OSError: as `move_leader`.
        """
        with self._lock:
            decision = plan()
            if decision is None:
                return
            has_moved = decision.leader != partition.leader
            try:
                self.topics.decide({partition: decision})
            except OSError:
                partition.undecided()
                raise
        if has_moved:
            self._moved()
        else:
            self._decided(partition)

    def reassign(
        self, partition: Partition, nodes: Sequence[int], allows_other_count: bool = True
    ) -> None:
        """Have a partition be on other nodes, once they have all of it (KIP-455).

        It may be over on return: then no node lacked anything.

        Args:
            partition: which.
            nodes: the preferred leader first.
            allows_other_count: whether it may have more or fewer replicas then.

        Raises:
            TopicError: there is no such node, or one comes twice, or none is given, or they are
                more or fewer.
            OSError: as `move_leader`.
        """
        check_nodes(nodes, self.node_ids)
        count = len({*partition.replicas} - {*partition.adding})
        if not allows_other_count and len(nodes) != count:
            raise TopicError(
                INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {count} to {len(nodes)}",
            )
        self.decide(partition, lambda: partition.plan_reassigned(nodes, self.topics.live))

    def cancel_reassignment(self, partition: Partition) -> None:
        """Have a partition be on the nodes that it was on before its reassignment.

        Raises:
            TopicError: there is none, or nobody of those before is in sync.
            OSError: as `move_leader`.
        """

        def plan() -> Decision:
            if not partition.adding and not partition.removing:
                raise TopicError(NO_REASSIGNMENT_IN_PROGRESS, "")
            decision = partition.plan_reverted(self.topics.live)
            if decision is None:
                raise TopicError(
                    INVALID_REPLICA_ASSIGNMENT,
                    f"{partition.topic}-{partition.index} cannot go back: none of its replicas "
                    f"before is in sync",
                )
            return decision

        self.decide(partition, plan)

    def _settle(self, node_id: int, change: _NodeChange) -> list[Partition]:
        """Have hold what follows from a node's coming or going, and from others before it that
        could not be written down; returns partitions whose leaders have moved. The lock is held.
        """
        self._unsettled.pop(node_id, None)
        self._unsettled[node_id] = change
        return self._settle_all()

    def _settle_all(self) -> list[Partition]:
        live, up = self.topics.live, self._up
        all_partitions = [each for topic in self.topics.all() for each in topic.partitions]
        moved: list[Partition] = []
        for node_id, change in list(self._unsettled.items()):
            decisions = {
                each: decision
                for each in all_partitions
                if (decision := change.plan(each, node_id, live, up)) is not None
            }
            led = [each for each, it in decisions.items() if it.leader_epoch != each.leader_epoch]
            try:
                self.topics.decide(decisions)
            finally:
                for each in all_partitions:
                    if each not in decisions:
                        each.sync_isr(live)
            del self._unsettled[node_id]
            moved += led
        return moved

    @contextlib.contextmanager
    def _retrying(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not self._is_retry_planned:
                self._is_retry_planned = True
                if not self._retry_later(RETRY_MS, self._retry):
                    self._is_retry_planned = False
            raise

    def _retry(self) -> None:
        self._is_retry_planned = False
        try:
            with self._retrying(), self._lock:
                moved = self._settle_all()
        except OSError as error:
            _log.error("who leads, and who is in sync, is not written down: %s", error)
            return
        if moved:
            self._moved()

    def _set_live(self, node_id: int, lives: bool) -> None:
        """Let new topics use the node, or not; the caller changes the topics that exist."""
        before = self.topics.live
        self.topics.set_live(
            [id for id in self.node_ids if (lives if id == node_id else id in before)]
        )
