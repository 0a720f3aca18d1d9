"""Replication: who lags, who is cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import NONE, REQUEST_TIMED_OUT
from support.broker.replica_world import high_watermarks, kill, pause, replicated, up, values
from support.broker.world import BrokerWorld, batch_of, produce_request, wait_for


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=3, min_insync_replicas=2) as opened:
        yield opened


def await_known(partition: ReplicatedPartition, end_offset: int) -> None:
    """Until node 0, which leads, knows that node 1 has so much: else that one lags, too.

    Node 1 has it a moment before; the leader learns of it by the next fetch.
    """
    follower = partition._by_node[0].followers[1]
    wait_for(lambda: follower.log_end_offset == end_offset)


def test_followers_that_lag_for_too_long_are_not_in_sync() -> None:
    """B-B2: and come back when they have caught up."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    with BrokerWorld(brokers=3, clock=clock, replica_lag_time_max_ms=1000) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        pause(world, 2)
        waiting = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"b"))]))
        await_known(found, 2)
        clock.advance(900)
        assert found.isr == [0, 1, 2]

        def dropped() -> bool:
            clock.advance(600)
            return found.isr == [0, 1]

        wait_for(dropped)
        assert waiting.wait().responses[0].partition_responses[0].error_code == NONE
        pause(world)
        wait_for(lambda: found.isr == [0, 1, 2])


def test_who_is_not_in_sync_and_lags_is_waited_for_no_longer() -> None:
    """B-B2: it had everything a moment ago and was about to be in sync; nothing else happens."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    with BrokerWorld(brokers=3, clock=clock, replica_lag_time_max_ms=1000) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        kill(world, 2)
        pause(world, 2)
        up(world, 2)
        waiting = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"b"))]))
        await_known(found, 2)
        assert found.isr == [0, 1]
        assert waiting.answer is None

        def is_answered() -> bool:
            clock.advance(600)
            return waiting.answer is not None

        wait_for(is_answered)
        assert waiting.wait().responses[0].partition_responses[0].error_code == NONE
        wait_for(lambda: high_watermarks(found)[:2] == [2, 2])


def test_who_lags_is_waited_for_until_it_is_written_down_that_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-B2: a restart finds it in sync until then, and may have it lead: it would lose records."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    seen: list[int] = []
    with BrokerWorld(brokers=3, clock=clock, replica_lag_time_max_ms=1000) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        pause(world, 2)
        assert world.produce(batch_of(b"b"), acks=1).error_code == NONE
        await_known(found, 2)

        def write(*_: object) -> None:
            seen.append(found.log.high_watermark)
            if len(seen) == 1:
                raise OSError("no space left")

        def dropped() -> bool:
            clock.advance(600)
            return found.log.high_watermark == 2

        monkeypatch.setattr(world.state.topics, "_on_change", write)
        wait_for(dropped)
        assert seen == [1, 1]
        assert found.isr == [0, 1]


def test_who_has_caught_up_is_in_sync_once_that_is_written_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be written down is tried again after a while, not at each fetch."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    seen: list[list[int]] = []
    with BrokerWorld(brokers=3, clock=clock, replica_lag_time_max_ms=1000) as world:
        found = replicated(world)
        kill(world, 2)
        assert found.isr == [0, 1]

        def write(*_: object) -> None:
            seen.append(list(found.isr))
            if len(seen) == 1:
                raise OSError("no space left")

        monkeypatch.setattr(world.state.topics, "_on_change", write)
        up(world, 2)
        wait_for(lambda: len(seen) == 1)
        for _ in range(20):
            assert world.produce(batch_of(b"a")).error_code == NONE
            wait_for(lambda: found.log_at(2).log_end_offset == found.log.log_end_offset)
        assert len(seen) == 1
        assert "node 2 is not in sync yet: no space left" in caplog.text

        def joined() -> bool:
            clock.advance(600)
            return found.isr == [0, 1, 2]

        wait_for(joined)
        assert seen == [[0, 1], [0, 1]]


def test_nothing_is_acknowledged_without_who_is_about_to_be_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-B2, Kafka's maximal ISR: it could lead as soon as that is written down. It is not caught up
    here, but has all that was acknowledged."""
    clock = FakeClock(time.time_ns() // 1_000_000)
    seen: list[tuple[int, int, int]] = []
    with BrokerWorld(brokers=3, clock=clock, replica_fetch_max_bytes=1) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        kill(world, 2)
        clock.advance(60_000)  # long ago it had everything, the other one has it now
        assert world.produce(batch_of(b"b")).error_code == NONE
        pause(world, 1, 2)
        found._by_node[2].log.truncate_fully_and_start_at(0)
        assert world.produce(batch_of(b"c"), acks=1).error_code == NONE
        assert high_watermarks(found)[:2] == [2, 2]

        def write(*_: object) -> None:
            world.state.replication.set_fetching(1, True)
            known = found._by_node[0].followers
            wait_for(lambda: known[1].log_end_offset == 3)
            seen.append((found.log.high_watermark, known[2].log_end_offset, len(found.isr)))

        up(world, 2)
        monkeypatch.setattr(world.state.topics, "_on_change", write)
        world.state.replication.set_fetching(2, True)
        wait_for(lambda: found.isr == [0, 1, 2])
        assert seen == [(2, 2, 2)]
        wait_for(lambda: high_watermarks(found) == [3, 3, 3])


def test_a_leader_that_is_cut_off_is_not_believed(world: BrokerWorld) -> None:
    """KIP-101, KIP-279: what it took meanwhile is cut off, whoever led since."""
    found = replicated(world)
    assert world.produce(batch_of(b"a")).error_code == NONE
    world.state.replication.cut_off(0)
    world.state.cluster.node_down(0, True, hands_over=False, lives=True)
    assert (found.leader, found.isr) == (1, [1, 2])
    assert world.produce(batch_of(b"lost"), acks=1, node_id=0).error_code == NONE
    assert world.produce(batch_of(b"b"), node_id=1).error_code == NONE
    world.state.cluster.move_leader(found, 2)
    assert world.produce(batch_of(b"c"), node_id=2).error_code == NONE
    message = produce_request([("t", 0, batch_of(b"never"))])
    message.timeout_ms = 10
    (answer,) = world.post("Produce", 9, message).wait().responses[0].partition_responses
    assert answer.error_code == REQUEST_TIMED_OUT
    assert values(found, 0) == [b"a", b"lost", b"never"]
    up(world, 0)
    wait_for(lambda: found.isr == [0, 1, 2])
    assert [values(found, each) for each in range(3)] == [[b"a", b"b", b"c"]] * 3


def test_a_leader_whose_controller_has_not_noticed_waits_for_its_followers(
    world: BrokerWorld,
) -> None:
    found = replicated(world)
    world.state.replication.cut_off(0)
    assert world.produce(batch_of(b"a"), acks=1).error_code == NONE
    assert (found.leader, found.isr) == (0, [0, 1, 2])
    assert found.log.high_watermark == 0
    assert found.plan_shrunk() is None
    up(world, 0)
    wait_for(lambda: high_watermarks(found) == [1, 1, 1])


def test_nothing_runs_without_replicas() -> None:
    with BrokerWorld(brokers=3, topics={"t": 1}) as world:
        assert world.produce(batch_of(b"a")).error_code == NONE
        names = [each.name for each in threading.enumerate()]
        assert not [name for name in names if "replica" in name]
