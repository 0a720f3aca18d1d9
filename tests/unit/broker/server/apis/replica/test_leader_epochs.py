"""OffsetForLeaderEpoch: where epochs end (KIP-101, KIP-320)."""

from __future__ import annotations

from fastprod.error_codes import (
    FENCED_LEADER_EPOCH,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.replica.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.broker.replica_world import kill, replicated
from support.broker.world import BrokerWorld, batch_of


def end_of(
    world: BrokerWorld, epoch: int, node_id: int, current: int = -1, partition: int = 0
) -> tuple[int, int, int]:
    """Code, epoch and its end."""
    asked = OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    message = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    (found,) = world.ask("OffsetForLeaderEpoch", 4, message, node_id).topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


def test_the_leader_tells_where_an_epoch_ends() -> None:
    with BrokerWorld(brokers=3) as world:
        found = replicated(world)
        for value in (b"a", b"b"):
            assert world.produce(batch_of(value)).error_code == NONE
        kill(world, 0)
        assert world.produce(batch_of(b"c"), node_id=1).error_code == NONE
        assert found.leader_epoch == 1
        assert end_of(world, 0, 1) == (NONE, 0, 2)
        assert end_of(world, 1, 1) == (NONE, 1, 3)
        assert end_of(world, 5, 1) == (NONE, -1, -1)
        assert end_of(world, 0, 2) == (NOT_LEADER_OR_FOLLOWER, -1, -1)
        assert end_of(world, 0, 1, current=0) == (FENCED_LEADER_EPOCH, -1, -1)
        assert end_of(world, 0, 1, current=2) == (UNKNOWN_LEADER_EPOCH, -1, -1)
        assert end_of(world, 0, 1, partition=9) == (UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_an_epoch_in_which_nothing_was_written_yet_is_known() -> None:
    """ListOffsets tells it: who has it must not hear, after a move, that records are gone."""
    with BrokerWorld(brokers=2, topics={"t": 1}) as world:
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        assert end_of(world, 0, partition.leader) == (NONE, 0, 0)
        for value in (b"a", b"b"):
            assert world.produce(batch_of(value), node_id=partition.leader).error_code == NONE
        for _ in range(3):
            world.state.cluster.move_leader(partition, 1 - partition.leader)
        leader = partition.leader
        assert partition.leader_epoch == 3
        assert end_of(world, 3, leader) == (NONE, 3, 2)
        assert end_of(world, 2, leader) == (NONE, 0, 2)
        assert end_of(world, 0, leader) == (NONE, 0, 2)
        assert end_of(world, 4, leader) == (NONE, -1, -1)
        assert world.produce(batch_of(b"c"), node_id=leader).error_code == NONE
        assert end_of(world, 3, leader) == (NONE, 3, 3)
        assert end_of(world, 2, leader) == (NONE, 0, 2)


def test_a_log_that_was_always_empty_knows_its_epochs() -> None:
    with BrokerWorld(brokers=2, topics={"t": 1}) as world:
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        world.state.cluster.move_leader(partition, 1 - partition.leader)
        assert end_of(world, 0, partition.leader) == (NONE, 0, 0)
        assert end_of(world, 1, partition.leader) == (NONE, 1, 0)
