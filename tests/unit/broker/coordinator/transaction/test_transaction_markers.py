"""The ends of transactions in their partitions (B-C7.2)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.coordinator.transaction.transaction_metadata import TV_2, TransactionMetadata
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.error_codes import INVALID_PRODUCER_EPOCH, NONE, NOT_LEADER_OR_FOLLOWER
from support.broker.log_batches import TIME, encoded
from support.broker.replica_world import high_watermarks, kill, pause, replicated
from support.broker.transaction_world import T0, TransactionWorld
from support.broker.world import BrokerWorld, move_leader, wait_for

# Replicas of the coordinator's own log are waited for, too: here it has one.
ALONE: dict[str, Any] = {"min_insync_replicas": 2, "transaction_state_log_replication_factor": 1}


def test_a_marker_is_refused_by_what_is_newer() -> None:
    world = TransactionWorld()
    producer = world.begun()
    partition = world.topics.partition(*T0)
    assert partition is not None
    newer = producer._replace(epoch=3)
    markers = world.transactions.markers
    code, written = markers.write_one(partition, EndTransactionMarker(newer, 0, True))
    assert code == NONE
    assert written is not None
    assert written.at.end_offset == partition.log.log_end_offset == 1
    found = markers.write_one(partition, EndTransactionMarker(producer, 0, True))
    assert found == (INVALID_PRODUCER_EPOCH, None)
    move_leader(partition, -1, [0])
    found = markers.write_one(partition, EndTransactionMarker(newer, 0, True))
    assert found == (NOT_LEADER_OR_FOLLOWER, None)


def test_a_partition_that_a_newer_producer_has_does_not_hold_the_end_up() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    partition = world.topics.partition(*T0)
    assert partition is not None
    newer = EndTransactionMarker(producer._replace(epoch=9), 0, False)
    partition.append_marker(newer)
    assert world.end(producer)[0] == NONE
    assert world.state() == "CompleteCommit"


def ended(world: BrokerWorld, partition: ReplicatedPartition, is_commit: bool) -> None:
    """A transaction with one record, which every replica has; what ends it, two of them."""
    transactions = world.state.transaction_coordinator
    transactions.manager.make_topic()
    node = transactions.manager.leader_of("x")
    code, producer = transactions.init_producer_id("x", 60_000, None, node)
    assert code == NONE
    batch = encoded(
        [(TIME, b"key", b"value")],
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    transactions.in_transaction(
        "x", producer, T0, True, lambda: partition.append(batch, None, True)
    )
    wait_for(lambda: high_watermarks(partition) == [1, 1, 1])
    pause(world, 1)
    assert transactions.end_transaction("x", producer, is_commit, TV_2, node)[0] == NONE


def metadata_of(transactions: TransactionCoordinator) -> TransactionMetadata:
    found = transactions.existing("x", None)
    assert found is not None
    return found


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_leader_that_lacks_a_marker_gets_it(is_commit: bool) -> None:
    """B-C7.2: an aborted record would count as committed by the next transaction else."""
    with BrokerWorld(brokers=3, **ALONE) as world:
        partition = replicated(world)
        ended(world, partition, is_commit)
        metadata = metadata_of(world.state.transaction_coordinator)
        # Node 1 is in sync, and does not have it.
        assert [partition.log_at(each).log_end_offset for each in range(3)] == [2, 1, 2]
        assert metadata.now.state.value.startswith("Prepare")
        kill(world, 0)
        pause(world)
        assert partition.leader == 1
        wait_for(lambda: metadata_of(world.state.transaction_coordinator).unmarked == {})
        wait_for(lambda: partition.log.last_stable_offset >= 2)
        aborted = partition.log.aborted_transactions(0, partition.log.log_end_offset)
        assert [each.first_offset for each in aborted] == ([] if is_commit else [0])


def test_a_marker_that_waits_for_a_replica_is_written_once() -> None:
    """B-C7.2"""
    with BrokerWorld(brokers=3, **ALONE) as world:
        partition = replicated(world)
        ended(world, partition, True)
        transactions = world.state.transaction_coordinator
        metadata = metadata_of(transactions)
        for _ in range(3):
            with metadata.lock:
                transactions.markers.write(metadata)
        assert T0 in metadata.unmarked
        pause(world)
        wait_for(lambda: metadata.now.state.value == "CompleteCommit")
        assert [partition.log_at(each).log_end_offset for each in range(3)] == [2, 2, 2]
