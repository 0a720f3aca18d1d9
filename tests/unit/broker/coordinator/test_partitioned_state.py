"""What a coordinator keeps by name, in partitions (B-E1); groups are an example of it."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.group.group import Committing
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata
from fastprod.broker.coordinator.partitioned_state import (
    CoordinatorError,
    batches_of,
    partition_for,
)
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.error_codes import COORDINATOR_NOT_AVAILABLE, NONE, NOT_COORDINATOR
from support.broker.replica_world import kill, pause
from support.broker.transaction_world import T0, TransactionWorld
from support.broker.world import BrokerWorld, move_leader
from support.groups.group_world import GroupWorld


@pytest.mark.parametrize(
    ("key", "partition"),
    # As Java's String.hashCode and Kafka's Utils.abs have it.
    [("", 0), ("g", 3), ("group", 47), ("polygenelubricants", 0), ("\U0001f600", 49)],
)
def test_a_names_partition_is_that_of_kafka(key: str, partition: int) -> None:
    """B-E1"""
    assert partition_for(key, 50) == partition


def test_who_coordinates_may_be_asked_without_a_node() -> None:
    """B-E1: as the broker asks itself; not while nobody does."""
    world = GroupWorld()
    world.commit({T0: 5})
    assert world.manager.item("g", None) is world.group()
    partition = world.partition()
    move_leader(partition, -1, [0, 1])
    with pytest.raises(CoordinatorError) as caught:
        world.manager.item("g", None)
    assert caught.value.code == NOT_COORDINATOR
    world.manager.close()
    move_leader(partition, 0, [0, 1])
    with pytest.raises(CoordinatorError) as caught:
        world.manager.item("g", None)
    assert caught.value.code == COORDINATOR_NOT_AVAILABLE


def test_what_belongs_to_a_transaction_says_so() -> None:
    """B-C7.1: without a sequence, as Kafka's coordinator writes it."""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, world.offsets_place())
    assert world.commit_offset(producer, 5) == NONE
    (batch,) = batches_of(world.partition())
    assert batch.is_transactional
    assert Producer(batch.producer_id, batch.producer_epoch) == producer
    assert batch.base_sequence == -1


def test_a_log_is_not_written_anew_while_a_transaction_is_open_in_it() -> None:
    """What belongs to it would come before what was committed earlier."""
    world = TransactionWorld()
    producer = world.begun()
    for offset in range(10):
        world.commit({("t", 2): offset})
    world.add(producer, world.offsets_place())
    world.commit_offset(producer, 5)
    log = world.partition().log
    loaded = world.manager._loaded[world.partition().index]
    world.manager._rewrite(loaded)
    assert log.log_start_offset == 0
    world.end(producer)
    world.manager._rewrite(loaded)
    assert log.log_start_offset > 10
    assert world.restarted().fetched() == {("t", 2): 9, T0: 5}


def test_what_is_kept_counts_when_all_replicas_in_sync_have_it() -> None:
    """B-E1: as with acks=all; else nobody is told so, and the next coordinator may lack it."""
    with BrokerWorld(brokers=3) as world:
        groups = world.state.group_coordinator
        groups.manager.make_topic()
        partition = groups.manager.partition_of("g")
        assert isinstance(partition, ReplicatedPartition)

        def commit(offset: int) -> int:
            offsets = {T0: OffsetAndMetadata(offset, -1, "", 0)}
            committing = Committing("g", -1, "", None, offsets)
            return groups.offsets.commit(committing, partition.leader)[T0]

        def fetched() -> int:
            return groups.offsets.fetch("g", [T0], partition.leader)[1][T0].offset

        assert commit(1) == NONE
        leader, follower, _ = partition.replicas
        # No fetcher was waited for.
        assert {each.log_end_offset for each in partition.logs()} == {1}
        assert partition.log.high_watermark == 1
        pause(world, follower)
        assert commit(2) == COORDINATOR_NOT_AVAILABLE
        assert partition.log_at(follower).log_end_offset == 1
        assert fetched() == 1
        kill(world, leader)
        assert partition.leader == follower
        assert fetched() == 1
        pause(world)
        assert commit(3) == NONE
        assert fetched() == 3


def test_too_few_replicas_in_sync() -> None:
    """B-E4: transaction.state.log.min.isr is 2."""
    with BrokerWorld(brokers=3) as world:
        transactions = world.state.transaction_coordinator
        transactions.manager.make_topic()
        partition = transactions.manager.partition_of("x")
        assert partition is not None

        def begin() -> int:
            return transactions.init_producer_id("x", 60_000, None, partition.leader)[0]

        assert begin() == NONE
        kill(world, partition.replicas[0])
        assert begin() == NONE
        kill(world, partition.replicas[1])
        assert begin() == COORDINATOR_NOT_AVAILABLE
        assert partition.log.log_end_offset == 2
