"""ListOffsets: each partition its own answer (B-D3)."""

from __future__ import annotations

import pytest

from fastprod.broker.log.log import Log
from fastprod.broker.log.log_error import LogError
from fastprod.error_codes import (
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from support.broker.world import BrokerWorld, batch_of


def request(*asked: tuple[str, int, int], isolation_level: int = 0) -> ListOffsetsRequest:
    """Each is (topic, partition, timestamp)."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition, timestamp in asked:
        topics.setdefault(topic, []).append(
            ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
    )


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_finds_both_ends_and_a_time(version: int) -> None:
    """B-D3, B-B2.6: nothing that young is offset -1, and no error."""
    with BrokerWorld(topics={"t": 1}) as world:
        at = world.clock.time_ms() - 100
        world.produce(batch_of(b"a", b"b", b"c", timestamp=at))
        found = [
            world.ask("ListOffsets", version, request(("t", 0, timestamp))).topics[0].partitions[0]
            for timestamp in (-1, -2, at + 1, at + 3)
        ]
    assert [(each.error_code, each.offset, each.timestamp) for each in found] == [
        (0, 3, -1),
        (0, 0, -1),
        (0, 1, at + 1),
        (0, -1, -1),
    ]
    # The leader epoch is there from version 4 on.
    assert found[0].leader_epoch == (0 if version >= 4 else -1)


def test_an_error_is_the_partitions_own() -> None:
    """B-D3."""
    with BrokerWorld(brokers=2, topics={"t": 2}) as world:
        answer = world.ask("ListOffsets", 7, request(("t", 0, -1), ("t", 1, -1), ("u", 0, -1)))
    found = [each.error_code for topic in answer.topics for each in topic.partitions]
    assert found == [
        NONE,
        NOT_LEADER_OR_FOLLOWER,
        UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_partition_that_is_named_twice_is_refused_and_others_are_not() -> None:
    """B-D3"""
    with BrokerWorld(topics={"t": 2}) as world:
        answer = world.ask("ListOffsets", 7, request(("t", 0, -1), ("t", 1, -1), ("t", 0, -2)))
    found = [each.error_code for each in answer.topics[0].partitions]
    assert found == [INVALID_REQUEST, NONE, INVALID_REQUEST]


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    """Without transactions that is the high watermark."""
    with BrokerWorld(topics={"t": 1}) as world:
        world.produce(batch_of(b"a"))
        answer = world.ask("ListOffsets", 7, request(("t", 0, -1), isolation_level=1))
        assert answer.topics[0].partitions[0].offset == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            LogError(KAFKA_STORAGE_ERROR, "a bad sector"),
            KAFKA_STORAGE_ERROR,
        ),
        (OSError("a bad sector"), KAFKA_STORAGE_ERROR),
        (RuntimeError("a mistake"), UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_a_partition_raises_is_its_own(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:

    def fails(self: Log, timestamp: int) -> None:
        if self.partition == 0:
            raise error

    with BrokerWorld(topics={"t": 2}) as world:
        monkeypatch.setattr(Log, "offset_for_timestamp", fails)
        asked = request(("t", 0, 5), ("t", 1, 5))
        found = world.ask("ListOffsets", 7, asked).topics[0].partitions
    assert [each.error_code for each in found] == [code, NONE]
