"""What the peers of one cluster know: nodes, topics, leaders, logs, producer ids."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from support.peer.partition_log import PartitionLog

FIRST_PRODUCER_ID = 1000
LAST_PRODUCER_EPOCH = 32766


class NodeAddress(NamedTuple):
    """Where clients are told to find a node."""

    host: str
    port: int
    rack: str | None = None


@dataclass
class Partition:
    """A partition: who leads it, what Metadata tells of that, and its log.

    Attributes:
        leader: the node that takes its batches; -1: none.
        epoch: leader epoch.
        told_leader: the leader in Metadata, which may lag behind.
        told_epoch: the epoch in Metadata.
        error_code: error of the partition in Metadata.
        replicas: node ids; also the in-sync ones unless `isr` says otherwise.
        log: what was appended.
    """

    leader: int
    replicas: tuple[int, ...]
    epoch: int = 0
    told_leader: int = -1
    told_epoch: int = 0
    error_code: int = 0
    isr: tuple[int, ...] | None = None
    offline: tuple[int, ...] = ()
    log: PartitionLog = field(default_factory=PartitionLog)

    def __post_init__(self) -> None:
        self.told_leader, self.told_epoch = self.leader, self.epoch


@dataclass
class Topic:
    """A topic; `error_code` and `is_internal` are what Metadata tells."""

    name: str
    topic_id: bytes
    partitions: list[Partition]
    error_code: int = 0
    is_internal: bool = False


class EndedTransaction(NamedTuple):
    """One EndTxn request that was granted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class ClusterState:
    """OWNER: a `Peer` alone, or a `PeerCluster`. THREADS: any; every method takes the lock.

    Args:
        lock: guards everything here; re-entrant.
        node_ids: ids of the nodes; leaders are dealt out in this order.
        auto_create_partitions: partitions of a topic that Metadata is asked for and nobody made;
            0: such a topic is unknown.
    """

    def __init__(
        self, lock: threading.RLock, node_ids: Iterable[int], auto_create_partitions: int = 0
    ) -> None:
        self.lock = lock
        self.node_ids = tuple(node_ids)
        self.auto_create_partitions = auto_create_partitions
        self.cluster_id: str | None = "peer-cluster"
        self.controller_id = self.node_ids[0]
        self.coordinator_id = self.node_ids[0]
        self.addresses: dict[int, NodeAddress] = {}
        self.topics: dict[str, Topic] = {}
        self.ended_transactions: list[EndedTransaction] = []
        self._topic_count = 0
        self._next_producer_id = FIRST_PRODUCER_ID
        self._transactional: dict[str, tuple[int, int]] = {}

    def add_topic(self, name: str, partition_count: int = 1) -> Topic:
        with self.lock:
            self._topic_count += 1
            topic_id = b"topic-id" + self._topic_count.to_bytes(8, "big")
            topic = self.topics[name] = Topic(name, topic_id, [])
            self.add_partitions(name, partition_count)
            return topic

    def add_partitions(self, name: str, partition_count: int) -> None:
        """Let the topic have `partition_count` partitions."""
        with self.lock:
            partitions = self.topics[name].partitions
            while len(partitions) < partition_count:
                leader = self.node_ids[len(partitions) % len(self.node_ids)]
                partitions.append(Partition(leader, self.node_ids))

    def recreate_topic(self, name: str) -> Topic:
        """Delete the topic and make it anew: new id, empty logs, epochs from 0."""
        with self.lock:
            partition_count = len(self.topics.pop(name).partitions)
            return self.add_topic(name, partition_count)

    def delete_topic(self, name: str) -> None:
        with self.lock:
            del self.topics[name]

    def partition(self, topic: str, partition: int) -> Partition:
        with self.lock:
            try:
                return self.topics[topic].partitions[partition]
            except (KeyError, IndexError):
                known = {each.name: len(each.partitions) for each in self.topics.values()}
                raise LookupError(f"no partition {topic}-{partition}; topics: {known}") from None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        with self.lock:
            found = (each for each in self.topics.values() if each.topic_id == topic_id)
            return next(found, None)

    def move_leader(self, topic: str, partition: int, to: int, *, told: bool = True) -> int:
        """Give the partition a new leader and the next epoch, which is returned."""
        with self.lock:
            moved = self.partition(topic, partition)
            moved.leader = to
            moved.epoch += 1
            if told:
                moved.told_leader, moved.told_epoch = to, moved.epoch
            return moved.epoch

    def lead_from(self, node_id: int, to: int) -> None:
        """Move every partition that `node_id` leads."""
        with self.lock:
            for topic in self.topics.values():
                for index, each in enumerate(topic.partitions):
                    if each.leader == node_id:
                        self.move_leader(topic.name, index, to)

    def tell_truth(self) -> None:
        """Let Metadata catch up with every leader and epoch."""
        with self.lock:
            for topic in self.topics.values():
                for each in topic.partitions:
                    each.told_leader, each.told_epoch = each.leader, each.epoch

    def set_topics(self, topics: Mapping[str, int]) -> None:
        for name, partition_count in topics.items():
            self.add_topic(name, partition_count)

    def init_producer_id(
        self, transactional_id: str | None, producer_id: int = -1, producer_epoch: int = -1
    ) -> tuple[int, int]:
        """The producer id and epoch to answer InitProducerId with."""
        with self.lock:
            known = (producer_id, producer_epoch)
            if transactional_id is not None:
                known = self._transactional.get(transactional_id, known)
            granted = self.bump_epoch(*known)
            if transactional_id is not None:
                self._transactional[transactional_id] = granted
            return granted

    def bump_epoch(self, producer_id: int, producer_epoch: int) -> tuple[int, int]:
        """The same id with the next epoch; a new id after the last epoch or without an id."""
        with self.lock:
            if producer_id >= 0 and producer_epoch < LAST_PRODUCER_EPOCH:
                return producer_id, producer_epoch + 1
            self._next_producer_id += 1
            return self._next_producer_id - 1, 0

    def end_transaction(self, ended: EndedTransaction, *, bump: bool) -> tuple[int, int]:
        """Decide the open batches of the producer; with `bump` its next epoch begins (KIP-890)."""
        with self.lock:
            self.ended_transactions.append(ended)
            for topic in self.topics.values():
                for partition in topic.partitions:
                    partition.log.end_transaction(ended.producer_id, ended.committed)
            current = (ended.producer_id, ended.producer_epoch)
            if bump:
                current = self.bump_epoch(*current)
                self._transactional[ended.transactional_id] = current
            return current
