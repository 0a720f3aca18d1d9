"""AlterPartitionReassignments and ListPartitionReassignments: partitions come to other nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.broker.server.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    KAFKA_STORAGE_ERROR,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.replica.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fastprod.protocol.messages.replica.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from support.broker.replica_world import await_told, kill, up, values
from support.broker.world import (
    PRODUCE_TIMEOUT_MS,
    BrokerWorld,
    batch_of,
    fetch_request,
    produce_request,
    wait_for,
)

NODES = range(4)


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=4, min_insync_replicas=2) as opened:
        yield opened


def made(world: BrokerWorld, *nodes: int) -> ReplicatedPartition:
    """Partition t-0 on these nodes, the first of which leads, with one record."""
    found = world.state.topics.create("t", assignment={0: nodes}).partitions[0]
    assert isinstance(found, ReplicatedPartition)
    assert world.produce(batch_of(b"a"), node_id=nodes[0]).error_code == NONE
    return found


def alter(
    world: BrokerWorld, *nodes: int, index: int = 0, topic: str = "t", **fields: Any
) -> tuple[int, str | None]:
    """Reassign t-0, or cancel that without nodes; code and text."""
    part = ReassignablePartition(partition_index=index, replicas=list(nodes) or None)
    message = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[part])], **fields
    )
    answer = world.ask("AlterPartitionReassignments", 1, message, node_id=2)
    assert answer.error_code == NONE
    (found,) = answer.responses[0].partitions
    assert found.partition_index == index
    return found.error_code, found.error_message


def listed(world: BrokerWorld, *topics: tuple[str, list[int]]) -> list[tuple[object, ...]]:
    asked = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in topics
    ]
    message = ListPartitionReassignmentsRequest(topics=asked or None)
    answer = world.ask("ListPartitionReassignments", 0, message, node_id=1)
    assert answer.error_code == NONE
    return [
        (
            topic.name,
            each.partition_index,
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in answer.topics
        for each in topic.partitions
    ]


def fetching(world: BrokerWorld, node_id: int, fetches: bool) -> None:
    world.state.replication.set_fetching(node_id, fetches)


def test_a_partition_comes_to_other_nodes(world: BrokerWorld) -> None:
    """B-D4.12: who comes fetches, then one of them leads, then the others go; acks=all holds."""
    found = made(world, 0, 1)
    for node_id in (2, 3):
        fetching(world, node_id, False)
    assert alter(world, 3, 2) == (NONE, None)
    assert listed(world) == [("t", 0, [3, 2, 0, 1], [2, 3], [0, 1])]
    assert listed(world, ("t", [0, 5]), ("?", [0])) == listed(world)
    assert listed(world, ("t", [1])) == []
    assert (found.leader, found.isr) == (0, [0, 1])
    assert world.produce(batch_of(b"b")).error_code == NONE
    fetching(world, 2, True)
    wait_for(lambda: found.isr == [2, 0, 1])
    assert listed(world) == [("t", 0, [3, 2, 0, 1], [2, 3], [0, 1])]
    # Not fetched by anybody yet, and acknowledged by its leader alone: it comes along.
    fetching(world, 1, False)
    assert world.produce(batch_of(b"c"), acks=1).error_code == NONE
    fetching(world, 3, True)
    await_told(found, lambda: found.leader == 3)
    assert (found.replicas, sorted(found.isr), found.leader_epoch) == ([3, 2], [2, 3], 1)
    assert listed(world) == []
    assert world.produce(batch_of(b"d"), node_id=0).error_code == NOT_LEADER_OR_FOLLOWER
    assert world.produce(batch_of(b"d"), node_id=3).error_code == NONE
    assert [values(found, each) for each in (2, 3)] == [[b"a", b"b", b"c", b"d"]] * 2
    assert len(found.logs()) == 2


def test_who_waits_for_a_leader_that_goes_is_told(world: BrokerWorld) -> None:
    made(world, 0, 1)
    fetching(world, 1, False)
    fetching(world, 2, False)
    waiting = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"b"))]))
    assert alter(world, 1, 2) == (NONE, None)
    assert waiting.answer is None
    fetching(world, 2, True)
    (answer,) = waiting.wait().responses[0].partition_responses
    assert answer.error_code == NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("nodes", [(0,), (0, 2)])
def test_who_waits_for_a_replica_that_goes_is_answered(
    world: BrokerWorld, nodes: tuple[int, ...]
) -> None:
    """B-D4.12: the others have all of it, and nothing else happens to the partition."""
    found = made(world, 0, 1, 2)
    fetching(world, 1, False)
    waiting = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"b"))]))
    wanted = fetch_request([("t", 0, 1)], max_wait_ms=PRODUCE_TIMEOUT_MS)
    reading = world.post("Fetch", 12, wanted)
    wait_for(lambda: found.log_at(2).log_end_offset == 2)
    assert (waiting.answer, reading.answer) == (None, None)
    assert alter(world, *nodes) == (NONE, None)
    (answer,) = waiting.wait().responses[0].partition_responses
    assert answer.error_code == NONE
    assert reading.wait().responses[0].partitions[0].high_watermark == 2


def test_fewer_and_more_replicas(world: BrokerWorld) -> None:
    """B-D4.12: `min.insync.replicas` never asks for more than there are."""
    found = made(world, 0, 1, 2)
    assert alter(world, 1) == (NONE, None)
    assert (found.leader, found.replicas, found.isr) == (1, [1], [1])
    assert world.produce(batch_of(b"b"), node_id=1).error_code == NONE
    assert alter(world, 1, 0, 3) == (NONE, None)
    wait_for(lambda: sorted(found.isr) == [0, 1, 3])
    assert (found.leader, found.leader_epoch, listed(world)) == (1, 1, [])
    assert world.produce(batch_of(b"c"), node_id=1).error_code == NONE
    wait_for(lambda: [values(found, each) for each in (0, 1, 3)] == [[b"a", b"b", b"c"]] * 3)


def test_a_cancellation_gives_back_the_nodes_of_before(world: BrokerWorld) -> None:
    """B-D4.12"""
    found = made(world, 0, 1)
    fetching(world, 3, False)
    assert alter(world, 2, 3) == (NONE, None)
    wait_for(lambda: found.isr == [2, 0, 1])
    assert alter(world) == (NONE, None)
    assert (found.leader, found.leader_epoch) == (0, 0)
    assert (found.replicas, found.isr, listed(world)) == ([0, 1], [0, 1], [])
    assert len(found.logs()) == 2
    assert world.produce(batch_of(b"b")).error_code == NONE
    assert alter(world) == (NO_REASSIGNMENT_IN_PROGRESS, None)


def test_a_node_that_is_down_is_waited_for(world: BrokerWorld) -> None:
    found = made(world, 0, 1)
    kill(world, 3)
    assert alter(world, 0, 3) == (NONE, None)
    assert listed(world) == [("t", 0, [0, 3, 1], [3], [1])]
    assert world.produce(batch_of(b"b")).error_code == NONE
    up(world, 3)
    wait_for(lambda: listed(world) == [])
    assert (found.replicas, found.isr) == ([0, 3], [0, 3])


def test_a_leader_that_fails_meanwhile(world: BrokerWorld) -> None:
    found = made(world, 0, 1)
    fetching(world, 3, False)
    assert alter(world, 2, 3) == (NONE, None)
    wait_for(lambda: found.isr == [2, 0, 1])
    kill(world, 0)
    assert (found.leader, found.isr) == (2, [2, 1])
    fetching(world, 3, True)
    wait_for(lambda: listed(world) == [])
    assert (found.leader, found.replicas) == (2, [2, 3])
    assert world.produce(batch_of(b"b"), node_id=2).error_code == NONE


def test_partitions_on_one_log_move_at_once(world: BrokerWorld) -> None:
    """With one replica all nodes share one log: nothing has to be fetched."""
    found = world.state.topics.create("t", assignment={0: [0]}).partitions[0]
    assert alter(world, 3) == (NONE, None)
    assert (found.leader, found.replicas, found.isr) == (3, [3], [3])
    assert listed(world) == []
    kill(world, 2)
    assert alter(world, 2) == (NONE, None)
    assert listed(world) == [("t", 0, [2, 3], [2], [3])]
    up(world, 2)
    assert (found.leader, found.replicas, listed(world)) == (2, [2], [])


def test_what_cannot_be_is_refused(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-D4.12"""
    found = made(world, 0, 1)
    before = found.decided()
    assert alter(world, 0, topic="?")[0] == UNKNOWN_TOPIC_OR_PARTITION
    assert alter(world, 0, index=1)[0] == UNKNOWN_TOPIC_OR_PARTITION
    for nodes in ((0, 9), (0, -1), (2, 2)):
        assert alter(world, *nodes)[0] == INVALID_REPLICA_ASSIGNMENT
    with pytest.raises(Exception, match="empty replica list"):
        world.state.cluster.reassign(found, [])
    refused = alter(world, 0, 1, 2, allow_replication_factor_change=False)
    assert refused[0] == INVALID_REPLICATION_FACTOR
    with monkeypatch.context() as full:

        def write(*_: object) -> None:
            raise OSError("no space left")

        full.setattr(world.state.topics, "_on_change", write)
        assert alter(world, 2, 3) == (KAFKA_STORAGE_ERROR, "no space left")
    assert found.decided() == before
    assert len(found.logs()) == 2


def test_who_may_not_is_told(world: BrokerWorld) -> None:
    """B-D1 CLUSTER_AUTHORIZATION_FAILED"""
    found = made(world, 0, 1)
    rule = (CLUSTER_NAME, PatternType.LITERAL)
    acl = Acl("User:root", Permission.ALLOW, Operation.ALL, ResourceType.CLUSTER, *rule)
    world.state.authorizer.add([acl])
    part = ReassignablePartition(partition_index=0, replicas=[2])
    message = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[part])]
    )
    answer = world.ask("AlterPartitionReassignments", 0, message)
    assert answer.error_code == CLUSTER_AUTHORIZATION_FAILED
    assert answer.responses[0].partitions[0].error_code == CLUSTER_AUTHORIZATION_FAILED
    denied = world.ask("ListPartitionReassignments", 0, ListPartitionReassignmentsRequest())
    assert denied.error_code == CLUSTER_AUTHORIZATION_FAILED
    assert found.replicas == [0, 1]


def test_a_reassignment_goes_on_after_a_restart(tmp_path: Path) -> None:
    """B-D4.12: and the folders of those that have gone are removed."""
    with BrokerWorld(brokers=4, data_dir=tmp_path) as world:
        made(world, 0, 1)
        fetching(world, 3, False)
        assert alter(world, 2, 3) == (NONE, None)
        wait_for(lambda: world.state.topics.all()[0].partitions[0].isr == [2, 0, 1])
    with BrokerWorld(brokers=4, data_dir=tmp_path) as world:
        found = world.state.topics.all()[0].partitions[0]
        assert isinstance(found, ReplicatedPartition)
        wait_for(lambda: not found.adding)
        assert (found.leader, found.replicas, sorted(found.isr)) == (2, [2, 3], [2, 3])
        assert [values(found, each) for each in (2, 3)] == [[b"a"]] * 2
        left = [tmp_path / "t-0", tmp_path / "node@1" / "t-0"]
        wait_for(lambda: not any(folder.exists() for folder in left))
    with BrokerWorld(brokers=4, data_dir=tmp_path) as world:
        found = world.state.topics.all()[0].partitions[0]
        assert (found.replicas, listed(world)) == ([2, 3], [])


def test_a_folder_that_a_crash_has_left_is_no_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerWorld(brokers=4, data_dir=tmp_path) as world:
        found = made(world, 0, 1)
        kept: list[ReplicaLog] = []
        with monkeypatch.context() as killed:
            killed.setattr(ReplicaLog, "delete", lambda log: kept.append(log))
            assert alter(world, 2, 3) == (NONE, None)
            wait_for(lambda: len(kept) == 2)
        assert found.replicas == [2, 3]
        assert (tmp_path / "node@1" / "t-0").exists()
    with BrokerWorld(brokers=4, data_dir=tmp_path) as world:
        assert not (tmp_path / "t-0").exists()
        assert not (tmp_path / "node@1" / "t-0").exists()
        # Not rglob: it would look into folders that are just going.
        homes = (tmp_path, *tmp_path.glob("node@*"))
        wait_for(lambda: not any(list(home.glob("*-delete")) for home in homes))
        assert alter(world, 2, 3, 1) == (NONE, None)
        again = world.state.topics.all()[0].partitions[0]
        wait_for(lambda: sorted(again.isr) == [1, 2, 3])
