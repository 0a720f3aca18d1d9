"""CreatePartitions (B-D4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastprod.error_codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from support.broker.world import BrokerWorld, batch_of


def wanted(name: str, count: int, nodes: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assignments = None
    if nodes is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=each) for each in nodes]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def grow(
    world: BrokerWorld, *asked: CreatePartitionsTopic, version: int = 3, **words: Any
) -> list[tuple[str, int]]:
    node_id = words.pop("node_id", 0)
    request = CreatePartitionsRequest(
        topics=list(asked), timeout_ms=1000, **({"validate_only": False} | words)
    )
    answer = world.post("CreatePartitions", version, request, node_id).wait()
    return [(each.name, each.error_code) for each in answer.results]


def count(world: BrokerWorld, name: str = "t") -> int:
    topic = world.state.topics.get(name)
    return 0 if topic is None else len(topic.partitions)


@pytest.mark.parametrize("version", range(4))
def test_new_partitions_can_be_used_at_once(version: int) -> None:
    """B-D4.6"""
    with BrokerWorld(brokers=2, topics={"t": 1}) as world:
        assert grow(world, wanted("t", 3), version=version) == [("t", NONE)]
        topic = world.state.topics.get("t")
        assert topic is not None
        assert [each.leader for each in topic.partitions] == [0, 1, 0]
        assert world.produce(batch_of(b"a"), partition=2).error_code == NONE


def test_what_is_only_checked_is_not_made() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        assert grow(world, wanted("t", 3), validate_only=True) == [("t", NONE)]
        assert count(world) == 1


def test_replicas_are_as_many_as_before_or_as_asked_for() -> None:
    with BrokerWorld(brokers=3) as world:
        world.state.topics.create("t", 1, 2)
        assert grow(world, wanted("t", 2)) == [("t", NONE)]
        assert grow(world, wanted("t", 3, [[2, 0]])) == [("t", NONE)]
        topic = world.state.topics.get("t")
        assert topic is not None
        assert [each.replicas for each in topic.partitions] == [[0, 1], [1, 2], [2, 0]]
        assert all(each.is_replicated for each in topic.partitions)
        assert world.produce(batch_of(b"a"), partition=2, node_id=2).error_code == NONE


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted("t", 2), INVALID_PARTITIONS),
        (wanted("t", 1), INVALID_PARTITIONS),
        (wanted("t", -1), INVALID_PARTITIONS),
        (wanted("t", 3, [[0], [0]]), INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 3, [[7]]), INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 100_000), POLICY_VIOLATION),
        (wanted("u", 3), UNKNOWN_TOPIC_OR_PARTITION),
        (wanted("__consumer_offsets", 99), INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_is_refused_and_others_are_made(
    asked: CreatePartitionsTopic, code: int
) -> None:
    """B-D4.6"""
    with BrokerWorld(topics={"t": 2, "v": 1}, max_partitions=1000) as world:
        world.state.group_coordinator.manager.make_topic()
        assert grow(world, asked, wanted("v", 2)) == [(asked.name, code), ("v", NONE)]
        assert (count(world), count(world, "v")) == (2, 2)


def test_each_topic_once_and_by_any_node() -> None:
    """B-D4.6: a node that is cut off reaches no controller."""
    with BrokerWorld(brokers=2, topics={"t": 1}) as world:
        assert grow(world, wanted("t", 2), wanted("t", 3)) == [("t", INVALID_REQUEST)]
        assert count(world) == 1
        assert grow(world, wanted("t", 2), node_id=1) == [("t", NONE)]
        world.state.cluster.node_down(1, True, lives=True)
        assert grow(world, wanted("t", 3), node_id=1) == [("t", NOT_CONTROLLER)]
        assert count(world) == 2


def test_new_partitions_are_found_again(tmp_path: Path) -> None:
    with BrokerWorld(topics={"t": 1}, data_dir=tmp_path) as world:
        grow(world, wanted("t", 2))
        world.produce(batch_of(b"a"), partition=1)
    with BrokerWorld(data_dir=tmp_path) as world:
        partition = world.state.topics.partition("t", 1)
        assert partition is not None
        assert partition.log.log_end_offset == 1


def test_what_cannot_be_written_down_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerWorld(topics={"t": 1}, data_dir=tmp_path) as world:
        before = world.state.topics._partition_count

        def fail(*_: object) -> None:
            raise OSError("full")

        monkeypatch.setattr(world.state.topics, "_on_change", fail)
        assert [code for _, code in grow(world, wanted("t", 2))] == [56]
        assert (count(world), world.state.topics._partition_count) == (1, before)
        assert not (tmp_path / "t-1").exists()
