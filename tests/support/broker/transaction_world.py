"""A transaction coordinator and a group coordinator without requests; time is moved by hand."""

from __future__ import annotations

from typing import Any

from fastprod.broker.cluster.producer_ids import ProducerIds
from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.coordinator.group.group import Committing
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TV_0,
    TopicPartition,
    TransactionMetadata,
)
from fastprod.broker.log.log import AppendInfo, Log
from fastprod.broker.log.record_batch import Producer
from fastprod.error_codes import NONE
from support.broker.log_batches import TIME, encoded
from support.groups.group_world import GroupWorld

TIMEOUT_MS = 60_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class TransactionWorld(GroupWorld):
    """Coordinators of two nodes; an id belongs to the node that leads its partition.

    Args:
        kept: logs of an earlier world, by topic and partition.
        ids: its producer ids.
        config: settings of the broker.
    """

    def __init__(
        self,
        kept: dict[TopicPartition, Log] | None = None,
        ids: ProducerIds | None = None,
        **config: Any,
    ) -> None:
        self.kept = {} if kept is None else kept
        self.ids = ids or ProducerIds(1000)
        super().__init__(None, **({"transaction_state_log_num_partitions": 3} | config))
        self.transactions = TransactionCoordinator(
            self.config,
            self.topics,
            self.clock,
            self.purgatory,
            self.worker,
            self.ids,
            self.offsets,
            self.grown.append,
        )
        self.transactions.manager.make_topic()

    def _open(self, topic: str, partition: int, topic_id: bytes, config: TopicConfig) -> Log:
        place = topic, partition
        if place not in self.kept:
            self.kept[place] = Log(None, topic, partition, config.log_config(), self.clock)
        return self.kept[place]

    def log(self, place: TopicPartition = T0) -> Log:
        return self.kept[place]

    def txn_node(self, transactional_id: str = "x") -> int:
        """The node that coordinates the transactional id."""
        return self.transactions.manager.leader_of(transactional_id)

    def metadata(self, transactional_id: str = "x") -> TransactionMetadata:
        found = self.transactions.existing(transactional_id, None)
        assert found is not None
        return found

    def state(self, transactional_id: str = "x") -> str:
        return self.metadata(transactional_id).now.state.value

    def init(
        self,
        transactional_id: str = "x",
        expected: Producer | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[int, Producer]:
        return self.transactions.init_producer_id(
            transactional_id, timeout_ms, expected, self.txn_node(transactional_id)
        )

    def begun(self, transactional_id: str = "x", timeout_ms: int = TIMEOUT_MS) -> Producer:
        """A producer that may begin a transaction."""
        code, producer = self.init(transactional_id, timeout_ms=timeout_ms)
        assert code == NONE
        return producer

    def add(self, producer: Producer, *places: TopicPartition, version: int = TV_0) -> int:
        return self.transactions.add_partitions(
            "x", producer, places or (T0,), self.txn_node(), version
        )

    def send(self, producer: Producer, sequence: int = 0, place: TopicPartition = T0) -> AppendInfo:
        """Append a record that belongs to a transaction, as after the coordinator was asked."""
        partition = self.topics.partition(*place)
        assert partition is not None
        batch = encoded(
            [(TIME, b"key", b"value")],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return partition.append(batch, is_verified=True)

    def end(
        self, producer: Producer, is_commit: bool = True, version: int = TV_0
    ) -> tuple[int, Producer]:
        return self.transactions.end_transaction("x", producer, is_commit, version, self.txn_node())

    def commit_offset(self, producer: Producer, offset: int, **changed: Any) -> int:
        """Commit an offset of t-0 in the transaction of x, whose group was added."""
        now_ms = self.clock.time_ms()
        offsets = {T0: OffsetAndMetadata(offset, -1, "", now_ms)}
        committing = Committing("g", -1, "", None, offsets, producer=producer)
        return self.offsets.commit(committing._replace(**changed), self.node())[T0]

    def offsets_place(self) -> TopicPartition:
        """Where the group g is kept."""
        partition = self.partition()
        return partition.topic, partition.index

    def restarted(self) -> TransactionWorld:
        """The same cluster after a restart, at the same time."""
        self.transactions.close()
        self.coordinator.close()
        world = TransactionWorld(self.kept, self.ids)
        for topic in self.topics.all():
            for partition in topic.partitions:
                found = world.topics.partition(topic.name, partition.index)
                assert found is not None
                # As a real one does (B-C8.6).
                found.leader_epoch = partition.leader_epoch + 1
        world.clock._start_ms = self.clock.time_ms()
        return world
