"""The ends of transactions in their partitions (B-C7.2)."""

from __future__ import annotations

from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.error_codes import INVALID_PRODUCER_EPOCH, NONE, NOT_LEADER_OR_FOLLOWER
from support.broker.transaction_world import T0, TransactionWorld


def test_a_marker_is_refused_by_what_is_newer() -> None:
    world = TransactionWorld()
    producer = world.begun()
    partition = world.topics.partition(*T0)
    assert partition is not None
    newer = producer._replace(epoch=3)
    markers = world.transactions.markers
    assert markers.write_one(partition, EndTransactionMarker(newer, 0, True)) == NONE
    code = markers.write_one(partition, EndTransactionMarker(producer, 0, True))
    assert code == INVALID_PRODUCER_EPOCH
    partition.move_leader(-1, [0])
    code = markers.write_one(partition, EndTransactionMarker(newer, 0, True))
    assert code == NOT_LEADER_OR_FOLLOWER


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
