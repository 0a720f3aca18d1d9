"""DeleteRecords (B-C4.5)."""

from __future__ import annotations

import pytest

from fastprod.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from support.broker.replica_world import pause, replicated
from support.broker.world import BrokerWorld, batch_of, fetch_request, wait_for


def delete(
    world: BrokerWorld, offset: int, topic: str = "t", partition: int = 0, version: int = 2
) -> tuple[int, int]:
    """Error, and where the log begins."""
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1000
    )
    answer = world.ask("DeleteRecords", version, request)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_are_gone(version: int) -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        world.produce(batch_of(b"a", b"b", b"c"))
        assert delete(world, 2, version=version) == (NONE, 2)
        # What is gone already stays so.
        assert delete(world, 1, version=version) == (NONE, 2)
        assert delete(world, -1, version=version) == (NONE, 3)
        answer = world.ask("Fetch", 12, fetch_request([("t", 0, 1)]))
        assert answer.responses[0].partitions[0].error_code == OFFSET_OUT_OF_RANGE


def test_what_cannot_be_deleted() -> None:
    with BrokerWorld(brokers=2, topics={"t": 2}) as world:
        world.state.topics.create("compacted", 1, 1, {"cleanup.policy": "compact"})
        world.produce(batch_of(b"a"))
        assert delete(world, 2) == (OFFSET_OUT_OF_RANGE, -1)
        assert delete(world, -2) == (OFFSET_OUT_OF_RANGE, -1)
        assert delete(world, 0, "u") == (UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert delete(world, 0, "t", 9) == (UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert delete(world, 0, "t", 1) == (NOT_LEADER_OR_FOLLOWER, -1)
        assert delete(world, 0, "compacted") == (POLICY_VIOLATION, -1)
        assert delete(world, 0, "__consumer_offsets") == (INVALID_TOPIC_EXCEPTION, -1)


def test_replicas_begin_later_too() -> None:
    with BrokerWorld(brokers=3) as world:
        partition = replicated(world)
        world.produce(batch_of(b"a", b"b", b"c"))
        wait_for(lambda: partition.log.high_watermark == 3)
        assert delete(world, 2) == (NONE, 2)
        wait_for(lambda: {each.log_start_offset for each in partition.logs()} == {2})


def test_what_is_not_replicated_is_not_deleted() -> None:
    """B-C4.5: -1 is the high watermark, not the end."""
    with BrokerWorld(brokers=3) as world:
        partition = replicated(world)
        world.produce(batch_of(b"a"))
        wait_for(lambda: partition.log.high_watermark == 1)
        pause(world, 1, 2)
        assert world.produce(batch_of(b"b"), acks=1).error_code == NONE
        assert delete(world, 2) == (OFFSET_OUT_OF_RANGE, -1)
        assert delete(world, -1) == (NONE, 1)
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (1, 2)
