"""What the nodes of one cluster share: identity, addresses, who is up, who leads."""

from __future__ import annotations

import binascii
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fastprod.broker.cluster.partition import NO_NODE, Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.error_codes import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
)


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


class Cluster:
    """The nodes, and which of them are up. Any thread.

    Args:
        cluster_id: its name for itself.
        node_ids: every node that there can be; the addresses come with `node_up`.
        topics: shared by all nodes.
        on_node: called with a node and whether it lives, before its partitions are.
    """

    def __init__(
        self,
        cluster_id: str,
        node_ids: Sequence[int],
        topics: Topics,
        on_node: Callable[[int, bool], None] = lambda node_id, lives: None,
    ) -> None:
        self.cluster_id = cluster_id
        self.node_ids = tuple(node_ids)
        self.topics = topics
        self._on_node = on_node
        self._lock = threading.Lock()
        # Replaced as a whole, so that readers take no lock.
        self._up: dict[int, NodeAddress] = {}

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

    def node_up(self, address: NodeAddress) -> list[Partition]:
        """Note that a node is up; returns the partitions that it leads again."""
        with self._lock:
            up = {**self._up, address.id: address}
            self._up = dict(sorted(up.items()))
            live = self._set_live(address.id, True)
            self._on_node(address.id, True)
            all_partitions = self._partitions()
            gained = [each for each in all_partitions if each.node_up(address.id, live)]
            self._write_down(gained)
            return gained

    def node_down(
        self, node_id: int, move_leaders: bool, hands_over: bool = True, lives: bool = False
    ) -> list[Partition]:
        """Note that a node is down; returns the partitions that it led.

        Args:
            node_id: which.
            move_leaders: let other nodes lead them; else they have no leader until it is back.
            hands_over: partitions with replicas: who leads next fetches all of it before.
            lives: it serves clients, and is only cut off from the other nodes.
        """
        with self._lock:
            self._up = {id: each for id, each in self._up.items() if id != node_id}
            live = self._set_live(node_id, False)
            all_partitions = self._partitions()
            handed: set[Partition] = set()
            if hands_over and move_leaders:
                handed = {each for each in all_partitions if each.hand_over(node_id, live)}
            if not lives:
                self._on_node(node_id, False)
            lost = [
                each
                for each in all_partitions
                if each.node_down(node_id, live, self._up, move_leaders) or each in handed
            ]
            changed = [each for each in all_partitions if each.is_replicated]
            self._write_down(dict.fromkeys([*lost, *changed]))
            return lost

    def move_leader(self, partition: Partition, node_id: int) -> int:
        """Let another node lead a partition, or none (-1); returns the new leader epoch.

        Raises:
            OSError: it cannot be written down; it holds until the broker stops.
            ValueError: the node cannot lead a partition with replicas.
        """
        with self._lock:
            epoch = partition.move_leader(node_id, self.topics.live)
            self._write_down([partition])
            return epoch

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
            partition.move_leader(leader, live)
            self._write_down([partition])
            return NONE

    def decide(self, partition: Partition, change: Callable[[], bool]) -> bool:
        """Have `change` change leader or replicas in sync of a partition; what it returns.

        Args:
            partition: which.
            change: returns whether it has.

        Raises:
            OSError: as `move_leader`.
        """
        with self._lock:
            has_changed = change()
            if has_changed:
                self._write_down([partition])
            return has_changed

    def _write_down(self, partitions: Iterable[Partition]) -> None:
        """Write epochs and replicas in sync down: no epoch that a client has seen may come again
        after a restart (B-C8.6).
        """
        names = dict.fromkeys(each.topic for each in partitions)
        if names:
            self.topics.save(names)

    def _set_live(self, node_id: int, lives: bool) -> Collection[int]:
        """Let new topics use the node, or not; the caller changes the topics that exist."""
        before = self.topics.live
        live = [id for id in self.node_ids if (lives if id == node_id else id in before)]
        self.topics.set_live(live)
        return live

    def _partitions(self) -> list[Partition]:
        return [each for topic in self.topics.all() for each in topic.partitions]
