"""Cluster: who is up, who is the controller, who leads after a failure."""

from __future__ import annotations

import time

import pytest

from fastprod.broker.cluster.cluster import RETRY_MS, NodeAddress, new_cluster_id
from fastprod.broker.cluster.partition import NO_NODE
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import NONE, NOT_ENOUGH_REPLICAS
from support.broker.replica_world import await_told, kill, replicated, up
from support.broker.world import BrokerWorld, batch_of, wait_for


def test_cluster_ids_are_22_characters_and_differ() -> None:
    found = {new_cluster_id() for _ in range(100)}
    assert len(found) == 100
    assert {len(each) for each in found} == {22}
    assert all(set(each) <= set(f"{_LETTERS}-_") for each in found)


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def test_the_controller_is_the_first_node_that_is_up() -> None:
    """B-B1.2: it must be a node that is listed."""
    with BrokerWorld(brokers=3) as world:
        cluster = world.state.cluster
        assert cluster.controller_id == 0
        cluster.node_down(0, True)
        assert cluster.controller_id == 1
        assert [each.id for each in cluster.addresses("PLAINTEXT")] == [1, 2]
        cluster.node_down(1, True)
        cluster.node_down(2, True)
        assert cluster.controller_id == -1


def test_partitions_of_a_failed_node_move_to_a_replica_that_is_up() -> None:
    with BrokerWorld(brokers=3) as world:
        topic = world.state.topics.create("t", 3, 2)
        lost = world.state.cluster.node_down(1, move_leaders=True)
        assert lost == [topic.partitions[1]]
        assert [each.leader for each in topic.partitions] == [0, 2, 2]
        assert [each.leader_epoch for each in topic.partitions] == [0, 1, 0]
        assert topic.partitions[0].isr == [0]


def test_a_partition_without_other_replicas_moves_all_the_same() -> None:
    """All nodes share one log."""
    with BrokerWorld(brokers=2, topics={"t": 2}) as world:
        world.state.cluster.node_down(0, move_leaders=True)
        found = world.state.topics.partition("t", 0)
        assert found is not None
        assert (found.leader, found.replicas) == (1, [1])


def test_a_leader_that_is_not_moved_comes_back_with_its_node() -> None:
    with BrokerWorld(brokers=2, topics={"t": 2}) as world:
        cluster = world.state.cluster
        found = world.state.topics.partition("t", 0)
        assert found is not None
        cluster.node_down(0, move_leaders=False)
        assert (found.leader, found.leader_epoch) == (NO_NODE, 1)
        assert cluster.node_up(NodeAddress(0, "127.0.0.1", 9000)) == [found]
        assert (found.leader, found.leader_epoch) == (0, 2)


def test_a_new_topic_is_led_by_nodes_that_are_up() -> None:
    """B-B2"""
    with BrokerWorld(brokers=3) as world:
        cluster, topics = world.state.cluster, world.state.topics
        cluster.node_down(0, True)
        topic = topics.create("t", 4, 2)
        assert [each.leader for each in topic.partitions] == [1, 2, 1, 2]
        assert all(each.isr == each.replicas for each in topic.partitions)
        # As many as asked for: who is down comes last, and does not count.
        wide = topics.create("u", 1, 3).partitions[0]
        assert (wide.leader, wide.replicas, wide.isr) == (1, [1, 2, 0], [1, 2])
        assigned = topics.create("v", assignment={0: [0, 2]}).partitions[0]
        assert (assigned.leader, assigned.replicas, assigned.isr) == (2, [0, 2], [2])
        cluster.node_up(NodeAddress(0, "127.0.0.1", 9000))
        wait_for(lambda: wide.isr == [1, 2, 0])
        assert wide.leader == 1


def test_only_replicas_that_are_up_count_for_acks_of_all() -> None:
    """B-B2, B-D1.5"""
    with BrokerWorld(brokers=3) as world:
        for node_id in (1, 2):
            world.state.cluster.node_down(node_id, True)
        topic = world.state.topics.create("t", 1, 3, {"min.insync.replicas": "2"})
        assert world.produce(batch_of(b"a"), acks=-1).error_code == NOT_ENOUGH_REPLICAS
        assert world.produce(batch_of(b"a"), acks=1).error_code == NONE
        world.state.cluster.node_up(NodeAddress(2, "127.0.0.1", 9002))
        await_told(topic.partitions[0], lambda: topic.partitions[0].isr == [0, 2])
        assert world.produce(batch_of(b"a"), acks=-1).error_code == NONE


def test_a_topic_that_is_made_while_nobody_is_up_has_no_leader_yet() -> None:
    """B-B2"""
    with BrokerWorld(brokers=2) as world:
        cluster = world.state.cluster
        for node_id in (0, 1):
            cluster.node_down(node_id, True)
        found = world.state.topics.create("t", 1, 2).partitions[0]
        assert found.leader == NO_NODE
        assert cluster.node_up(NodeAddress(1, "127.0.0.1", 9001)) == [found]
        assert (found.leader, found.isr) == (1, [1])


def test_a_node_that_is_down_cannot_be_made_the_leader_of_replicas() -> None:
    """B-B2: of a partition with one replica it can; nobody answers then."""
    with BrokerWorld(brokers=2, topics={"one": 1}) as world:
        cluster = world.state.cluster
        found = world.state.topics.create("t", 1, 2).partitions[0]
        shared = world.state.topics.partition("one", 0)
        assert shared is not None
        cluster.node_down(1, True)
        with pytest.raises(ValueError, match="node 1 is down"):
            cluster.move_leader(found, 1)
        assert (found.leader, found.isr) == (0, [0])
        cluster.move_leader(shared, 1)
        assert (shared.leader, shared.isr) == (1, [0])


def test_who_was_killed_is_waited_for_until_it_is_written_down_that_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-B2: with records that it lacks acknowledged it must not lead after a restart."""
    with BrokerWorld(brokers=3) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        seen: list[int] = []

        def write(*_: object) -> None:
            # Appends go on meanwhile, and are fetched.
            assert world.produce(batch_of(b"b"), acks=1).error_code == NONE
            wait_for(lambda: found.log_at(1).log_end_offset == 2)
            found.fetch(1)
            seen.append(found.log.high_watermark)

        monkeypatch.setattr(world.state.topics, "_on_change", write)
        kill(world, 2)
        assert seen == [1]
        wait_for(lambda: found.log.high_watermark == 2)


def test_a_disk_that_fails_leaves_everything_as_it_was_until_it_works(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody leads for a node that is down, until it can be written down; then all is well."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    with BrokerWorld(brokers=3, clock=clock) as world:
        found = replicated(world)
        fails = [True]

        def write(*_: object) -> None:
            if fails[0]:
                raise OSError("no space left")

        monkeypatch.setattr(world.state.topics, "_on_change", write)
        for node_id in (2, 0):
            with pytest.raises(OSError, match="no space left"):
                kill(world, node_id)
        assert (found.leader, found.leader_epoch, found.isr) == (0, 0, [0, 1, 2])
        with pytest.raises(OSError, match="no space left"):
            world.state.cluster.move_leader(found, 1)
        assert found.leader == 0

        def is_tried_again() -> bool:
            clock.advance(RETRY_MS)
            return "who leads, and who is in sync, is not written down" in caplog.text

        wait_for(is_tried_again)
        assert (found.leader, found.leader_epoch, found.isr) == (0, 0, [0, 1, 2])
        fails[0] = False

        def is_settled() -> bool:
            clock.advance(RETRY_MS)
            return (found.leader, found.leader_epoch, found.isr) == (1, 1, [1])

        await_told(found, is_settled)
        assert world.produce(batch_of(b"a"), node_id=1).error_code == NONE
        for node_id in (0, 2):
            up(world, node_id)
        wait_for(lambda: found.isr == [0, 1, 2])


def test_a_node_that_is_back_before_it_could_be_written_down_leads_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with BrokerWorld(brokers=3) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE

        def write(*_: object) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as failing:
            failing.setattr(world.state.topics, "_on_change", write)
            with pytest.raises(OSError, match="no space left"):
                kill(world, 0)
            up(world, 0)
        assert (found.leader, found.leader_epoch) == (0, 0)
        assert world.produce(batch_of(b"b")).error_code == NONE
        wait_for(lambda: all(found.log_at(each).log_end_offset == 2 for each in range(3)))
