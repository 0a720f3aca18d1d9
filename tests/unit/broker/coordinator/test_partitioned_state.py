"""What a coordinator keeps by name, in partitions (B-E1); groups are an example of it."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.partitioned_state import (
    CoordinatorError,
    batches_of,
    partition_for,
)
from fastprod.broker.log.record_batch import Producer
from fastprod.error_codes import COORDINATOR_NOT_AVAILABLE, NONE, NOT_COORDINATOR
from support.broker.transaction_world import T0, TransactionWorld
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
    partition.move_leader(-1, [0, 1])
    with pytest.raises(CoordinatorError) as caught:
        world.manager.item("g", None)
    assert caught.value.code == NOT_COORDINATOR
    world.manager.close()
    partition.move_leader(0, [0, 1])
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
