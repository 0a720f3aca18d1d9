"""ReplicatedPartition: followers fetch, the high watermark, replicas in sync, truncation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.error_codes import (
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
)
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from support.broker.replica_world import high_watermarks, kill, pause, replicated, up, values
from support.broker.world import BrokerWorld, batch_of, fetch_request, produce_request, wait_for


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=3, min_insync_replicas=2) as opened:
        yield opened


def test_each_replica_has_a_log_of_its_own(world: BrokerWorld) -> None:
    found = replicated(world)
    for value in (b"a", b"b", b"c" * 20_000):
        assert world.produce(batch_of(value)).error_code == NONE
    assert len({id(found.log_at(each)) for each in range(3)}) == 3
    wait_for(lambda: high_watermarks(found) == [3, 3, 3])
    assert [values(found, each) for each in range(3)] == [[b"a", b"b", b"c" * 20_000]] * 3


def test_one_replica_has_no_machinery() -> None:
    with BrokerWorld(brokers=3, topics={"t": 3}) as world:
        found = world.state.topics.partition("t", 0)
        assert found is not None
        assert not found.is_replicated
        assert world.produce(batch_of(b"a")).error_code == NONE
        assert found.log.high_watermark == 1


def test_acks_all_waits_for_the_replicas_in_sync(world: BrokerWorld) -> None:
    """B-D1, B-D1.5"""
    found = replicated(world)
    pause(world, 2)
    waiting = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
    assert world.produce(batch_of(b"b"), acks=1).error_code == NONE
    wait_for(lambda: found.log_at(1).log_end_offset == 2)
    assert waiting.answer is None
    assert found.log.high_watermark == 0
    pause(world)
    (answer,) = waiting.wait().responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (NONE, 0)


def test_time_is_over_and_the_records_stay(world: BrokerWorld) -> None:
    """B-D1 REQUEST_TIMED_OUT"""
    found = replicated(world)
    pause(world, 1, 2)
    message = produce_request([("t", 0, batch_of(b"a"))])
    message.timeout_ms = 20
    (answer,) = world.post("Produce", 9, message).wait().responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (REQUEST_TIMED_OUT, -1)
    pause(world)
    wait_for(lambda: high_watermarks(found) == [1, 1, 1])


def test_too_few_replicas_in_sync_before_and_after_the_append(world: BrokerWorld) -> None:
    """B-D1 NOT_ENOUGH_REPLICAS, B-D1 NOT_ENOUGH_REPLICAS_AFTER_APPEND"""
    found = replicated(world)
    assert world.produce(batch_of(b"a")).error_code == NONE
    kill(world, 2)
    epoch = found.leader_epoch
    assert found.error_of_append(0, epoch, 1) == NONE
    kill(world, 1)
    assert found.error_of_append(0, epoch, 1) == NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert found.error_of_append(0, epoch, 2) is None
    assert found.error_of_append(0, epoch - 1, 1) == NOT_LEADER_OR_FOLLOWER
    assert world.produce(batch_of(b"b")).error_code == NOT_ENOUGH_REPLICAS
    # Appended, but seen by nobody: KIP-966.
    assert world.produce(batch_of(b"c"), acks=1).error_code == NONE
    assert (found.log.high_watermark, found.log.log_end_offset) == (1, 2)


def test_consumers_read_up_to_the_high_watermark(world: BrokerWorld) -> None:
    """B-D2, B-D3"""
    replicated(world)
    assert world.produce(batch_of(b"a")).error_code == NONE
    pause(world, 1, 2)
    assert world.produce(batch_of(b"b"), acks=1).error_code == NONE
    (data,) = world.ask("Fetch", 12, fetch_request([("t", 0, 0)])).responses[0].partitions
    assert data.high_watermark == 1
    assert bytes(data.records).count(b"\0a\0") <= 1
    assert len(bytes(data.records)) == len(batch_of(b"a"))
    waiting = world.post("Fetch", 12, fetch_request([("t", 0, 1)], max_wait_ms=10_000))
    assert waiting.answer is None
    pause(world)
    (data,) = waiting.wait().responses[0].partitions
    assert data.high_watermark == 2


def latest(world: BrokerWorld, node_id: int) -> tuple[int, int]:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    message = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsTopic(name="t", partitions=[asked])],
    )
    (found,) = world.ask("ListOffsets", 5, message, node_id).topics[0].partitions
    return found.error_code, found.offset


def test_a_new_leader_does_not_tell_an_older_end(world: BrokerWorld) -> None:
    """B-D3: its high watermark lags until its followers have fetched (KIP-207)."""
    found = replicated(world)
    assert world.produce(batch_of(b"a")).error_code == NONE
    wait_for(lambda: high_watermarks(found) == [1, 1, 1])
    pause(world, 2)
    # Node 1 has it, and does not know that node 2 has not.
    assert world.produce(batch_of(b"b"), acks=1).error_code == NONE
    wait_for(lambda: found.log_at(1).log_end_offset == 2)
    kill(world, 0)
    assert found.leader == 1
    assert latest(world, 1) == (OFFSET_NOT_AVAILABLE, -1)
    pause(world)
    wait_for(lambda: latest(world, 1) == (NONE, 2))


def test_a_killed_leader_loses_what_nobody_had_fetched(world: BrokerWorld) -> None:
    """KIP-101: it is cut off, and what the new leader wrote comes in its place."""
    found = replicated(world)
    assert world.produce(batch_of(b"a")).error_code == NONE
    pause(world, 1, 2)
    assert world.produce(batch_of(b"lost"), acks=1).error_code == NONE
    kill(world, 0)
    pause(world)
    assert (found.leader, found.leader_epoch, found.isr) == (1, 1, [1, 2])
    assert world.produce(batch_of(b"b"), node_id=1).error_code == NONE
    assert values(found, 0) == [b"a", b"lost"]
    up(world, 0)
    wait_for(lambda: found.isr == [0, 1, 2])
    wait_for(lambda: high_watermarks(found) == [2, 2, 2])
    assert [values(found, each) for each in range(3)] == [[b"a", b"b"]] * 3


def test_a_leader_that_goes_down_hands_over_what_it_has(world: BrokerWorld) -> None:
    found = replicated(world)
    for number in range(50):
        assert world.produce(batch_of(b"%d" % number), acks=1).error_code == NONE
    world.state.cluster.node_down(0, True)
    assert found.leader == 1
    assert values(found, 1) == [b"%d" % number for number in range(50)]


def test_the_last_replica_in_sync_is_waited_for(world: BrokerWorld) -> None:
    found = replicated(world)
    assert world.produce(batch_of(b"a")).error_code == NONE
    for node_id in (1, 2, 0):
        kill(world, node_id)
    assert (found.leader, found.isr) == (-1, [0])
    up(world, 1)
    assert found.leader == -1
    up(world, 0)
    assert found.leader == 0
    wait_for(lambda: found.isr == [0, 1])
    assert values(found, 1) == [b"a"]


def test_an_unclean_election_takes_who_is_there(world: BrokerWorld) -> None:
    found = replicated(world, **{"unclean.leader.election.enable": "true"})
    pause(world, 1, 2)
    assert world.produce(batch_of(b"lost"), acks=1).error_code == NONE
    kill(world, 1)
    kill(world, 2)
    assert found.isr == [0]
    kill(world, 0)
    pause(world)
    up(world, 2)
    assert (found.leader, found.isr) == (2, [2])
    up(world, 1)
    up(world, 0)
    wait_for(lambda: found.isr == [0, 1, 2])
    assert [values(found, each) for each in range(3)] == [[]] * 3


def test_a_follower_goes_on_if_the_log_is_shortened_while_it_fetches(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention takes what it was about to read, and nobody appends any more."""
    found = replicated(world)
    kill(world, 1)
    for value in (b"a", b"b", b"c"):
        assert world.produce(batch_of(value)).error_code == NONE
    leader, read = found.log_at(0), ReplicaLog.read
    reads: list[int] = []

    def shorten(log: ReplicaLog, offset: int, *limits: Any) -> Any:
        if log is leader and not reads:
            reads.append(offset)
            leader.delete_records(2)
        return read(log, offset, *limits)

    monkeypatch.setattr(ReplicaLog, "read", shorten)
    up(world, 1)
    wait_for(lambda: found.isr == [0, 1, 2])
    assert reads == [0]
    assert values(found, 1) == [b"c"]


def test_a_deleted_topic_has_no_replicas_any_more(world: BrokerWorld) -> None:
    found = replicated(world)
    pause(world, 1)
    assert world.produce(batch_of(b"a"), acks=1).error_code == NONE
    world.state.topics.delete("t")
    pause(world)
    assert all(each.is_closed for each in found.logs())


def test_replicas_are_found_again(tmp_path: Path) -> None:
    """B-C8.6"""
    with BrokerWorld(brokers=3, data_dir=tmp_path, min_insync_replicas=2) as world:
        found = replicated(world)
        for value in (b"a", b"b"):
            assert world.produce(batch_of(value)).error_code == NONE
        wait_for(lambda: high_watermarks(found) == [2, 2, 2])
        kill(world, 0)
        assert world.produce(batch_of(b"c"), node_id=1).error_code == NONE
    assert (tmp_path / "t-0").is_dir()
    assert (tmp_path / "node@2" / "t-0").is_dir()
    with BrokerWorld(brokers=3, data_dir=tmp_path, min_insync_replicas=2) as world:
        (found,) = world.state.topics.get("t").partitions  # type: ignore[assignment,union-attr]
        assert isinstance(found, ReplicatedPartition)
        assert (found.leader, found.leader_epoch) == (1, 2)
        wait_for(lambda: found.isr == [0, 1, 2])
        wait_for(lambda: high_watermarks(found) == [3, 3, 3])
        assert [values(found, each) for each in range(3)] == [[b"a", b"b", b"c"]] * 3
        world.state.topics.delete("t")
        assert not list(tmp_path.glob("**/t-0"))


def test_a_follower_that_is_too_far_behind_begins_with_the_leaders_first_offset(
    tmp_path: Path,
) -> None:
    with BrokerWorld(brokers=3, data_dir=tmp_path, min_insync_replicas=2) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        kill(world, 2)
        for value in (b"b", b"c"):
            assert world.produce(batch_of(value)).error_code == NONE
        found.log.delete_records(2)
        up(world, 2)
        wait_for(lambda: found.isr == [0, 1, 2])
        assert found.log_at(2).log_start_offset == 2
        assert values(found, 2) == [b"c"]


def test_a_follower_begins_inside_a_batch(tmp_path: Path) -> None:
    """B-C4.5: DeleteRecords may let the leader's log start there; nobody copies half a batch."""
    values_now = [b"b", b"c", b"d"]
    with BrokerWorld(brokers=3, data_dir=tmp_path, min_insync_replicas=2) as world:
        found = replicated(world)
        assert world.produce(batch_of(b"a")).error_code == NONE
        kill(world, 2)
        assert world.produce(batch_of(*values_now)).error_code == NONE
        found.log.delete_records(2)
        up(world, 2)
        wait_for(lambda: found.isr == [0, 1, 2])
        log = found.log_at(2)
        assert (log.log_start_offset, log.log_end_offset) == (2, 4)
        assert values(found, 2) == values_now
    with BrokerWorld(brokers=3, data_dir=tmp_path, min_insync_replicas=2) as world:
        found = world.state.topics.get("t").partitions[0]  # type: ignore[assignment,union-attr]
        log = found.log_at(2)
        assert (log.log_start_offset, log.log_end_offset) == (2, 4)
        assert values(found, 2) == values_now
