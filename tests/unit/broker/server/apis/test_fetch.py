"""Fetch: at once, or when there is enough, or when something is wrong (B-C5, B-D2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from fastprod.broker.log.log import Log
from fastprod.broker.log.log_reader import LogReader
from fastprod.broker.network.connection import Connection
from fastprod.broker.server.apis import fetch
from fastprod.broker.server.apis.fetch import FetchApi
from fastprod.broker.server.replica_manager import ReadResult, ReplicaManager
from fastprod.error_codes import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.fetch import FetchRequest
from support.broker.world import Asked, BrokerWorld, batch_of, fetch_request, move_leader
from support.oracle.record_batch import decode_batches

FOREVER_MS = 3_600_000


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=2, topics={"t": 4}) as made:
        yield made


def park(world: BrokerWorld, *offsets: tuple[int, int], min_bytes: int = 1, **words: int) -> Asked:
    """A fetch of node 0's partitions that waits."""
    parts = [("t", partition, offset) for partition, offset in offsets]
    message = fetch_request(parts, max_wait_ms=FOREVER_MS, min_bytes=min_bytes, **words)  # type: ignore[arg-type]
    asked = world.post("Fetch", 12, message)
    assert asked.answer is None
    return asked


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_brings_the_batches_as_they_were_appended(
    world: BrokerWorld, version: int
) -> None:
    batch = batch_of(b"a", b"b")
    world.produce(batch)
    answer = world.ask("Fetch", version, fetch_request([("t", 0, 0)]))
    assert (answer.throttle_time_ms, answer.session_id) == (0, 0)
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 2, 2)
    assert bytes(found.records)[12:] != b""
    assert decode_batches(bytes(found.records))[0].records == decode_batches(batch)[0].records


def test_no_records_are_an_empty_string_and_not_null(world: BrokerWorld) -> None:
    """B-B1.2: the last four bytes of a version 11 answer are the length of its records."""
    raw = world.post("Fetch", 11, fetch_request([("t", 0, 0)])).raw
    assert raw.endswith(b"\0\0\0\0")
    failed = world.post("Fetch", 11, fetch_request([("t", 0, 7)])).raw
    assert failed.endswith(b"\0\0\0\0")


def test_an_error_is_the_partitions_own_and_its_numbers_are_unknown(world: BrokerWorld) -> None:
    """B-B2.5, B-B2.6, B-D2.1, B-D2.2"""
    world.produce(batch_of(b"a"))
    parts = [("t", 0, 0), ("t", 1, 0), ("t", 9, 0), ("u", 0, 0), ("t", 2, 5)]
    answer = world.ask("Fetch", 12, fetch_request(parts, max_wait_ms=FOREVER_MS))
    found = {
        (topic.topic, each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }
    assert {place: each.error_code for place, each in found.items()} == {
        ("t", 0): NONE,
        ("t", 1): NOT_LEADER_OR_FOLLOWER,
        ("t", 9): UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 2): OFFSET_OUT_OF_RANGE,
        ("u", 0): UNKNOWN_TOPIC_OR_PARTITION,
    }
    refused = found["t", 2]
    assert (refused.high_watermark, refused.last_stable_offset, refused.log_start_offset) == (
        -1,
        -1,
        -1,
    )
    # Kafka gives no hint before version 16.
    assert found["t", 1].current_leader.leader_id == -1


def by_id(world: BrokerWorld, request: FetchRequest) -> FetchRequest:
    """The same request with ids of topics in place of their names."""
    for each in request.topics:
        topic = world.state.topics.get(each.topic)
        each.topic, each.topic_id = "", b"?" * 16 if topic is None else topic.id
    return request


@pytest.mark.parametrize("version", range(13, 19))
def test_topics_are_named_by_their_ids(world: BrokerWorld, version: int) -> None:
    """KIP-516, KIP-951"""
    world.produce(batch_of(b"a"))
    parts = [("t", 0, 0), ("t", 1, 0), ("u", 0, 0), ("t", 2, 5)]
    answer = world.ask("Fetch", version, by_id(world, fetch_request(parts)))
    found = [
        (topic.topic_id, each.partition_index, each.error_code)
        for topic in answer.responses
        for each in topic.partitions
    ]
    known = world.state.topics.get("t")
    assert known is not None
    assert found == [
        (known.id, 0, NONE),
        (known.id, 1, NOT_LEADER_OR_FOLLOWER),
        (known.id, 2, OFFSET_OUT_OF_RANGE),
        (b"?" * 16, 0, UNKNOWN_TOPIC_ID),
    ]
    read, moved, out_of_range = answer.responses[0].partitions
    assert decode_batches(bytes(read.records))[0].records[0].value == b"a"
    hinted = version >= 16
    assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (
        (1, 0) if hinted else (-1, -1)
    )
    assert out_of_range.current_leader.leader_id == -1
    assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == (
        [(1, "127.0.0.1", 9001)] if hinted else []
    )


def test_a_client_with_an_old_epoch_learns_who_leads(world: BrokerWorld) -> None:
    """KIP-951"""
    partition = world.state.topics.partition("t", 0)
    assert partition is not None
    move_leader(partition, 0, [0, 1])
    request = by_id(world, fetch_request([("t", 0, 0)], leader_epoch=0))
    answer = world.ask("Fetch", 16, request)
    (found,) = answer.responses[0].partitions
    assert found.error_code == FENCED_LEADER_EPOCH
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (0, 1)
    assert [each.node_id for each in answer.node_endpoints] == [0]


def test_a_fetch_that_need_not_wait_does_not(world: BrokerWorld) -> None:
    """B-D2.3"""
    assert world.ask("Fetch", 12, fetch_request([("t", 0, 0)], max_wait_ms=0))
    assert world.ask("Fetch", 12, fetch_request([], max_wait_ms=FOREVER_MS)).responses == []
    waiting = fetch_request([("t", 0, 0)], max_wait_ms=FOREVER_MS, min_bytes=0)
    assert world.ask("Fetch", 12, waiting)
    assert world.state.purgatory.parked_count == 0


def test_a_fetch_waits_until_records_come(world: BrokerWorld) -> None:
    """B-D2.3, B-A5.6"""
    asked = park(world, (0, 0), (2, 0))
    other = park(world, (0, 0))
    world.produce(batch_of(b"late"), partition=2)
    (empty, found) = asked.wait().responses[0].partitions
    assert (bytes(empty.records), empty.high_watermark) == (b"", 0)
    assert decode_batches(bytes(found.records))[0].records[0].value == b"late"
    assert other.answer is None


def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for(world: BrokerWorld) -> None:
    """B-D2.3: over all its partitions together."""
    batch = batch_of(b"x" * 50)
    asked = park(world, (0, 0), (2, 0), min_bytes=3 * len(batch))
    world.produce(batch, partition=0)
    world.produce(batch, partition=2)
    assert asked.answer is None
    world.produce(batch, partition=2)
    sizes = [len(each.records) for each in asked.wait().responses[0].partitions]
    assert sizes == [len(batch), 2 * len(batch)]


def test_a_waiting_fetch_reads_nothing_before_there_can_be_enough(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-D2.3: else each append would have the whole of what waits read again."""
    batch = batch_of(b"x" * 50)
    asked = park(world, (0, 0), (2, 0), min_bytes=20 * len(batch))
    reads: list[int] = []
    read = ReplicaManager.read

    def note(self: ReplicaManager, *arguments: Any) -> list[ReadResult]:
        reads.append(1)
        return read(self, *arguments)

    monkeypatch.setattr(ReplicaManager, "read", note)
    for number in range(19):
        world.produce(batch, partition=number % 2 * 2)
    assert reads == []
    world.produce(batch)
    found = asked.wait().responses[0].partitions
    assert sum(len(each.records) for each in found) == 20 * len(batch)


def test_an_append_looks_at_no_other_log_of_a_waiting_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-D2.3: a request with all of the partitions took the square of their number."""
    batch = batch_of(b"x" * 50)
    partitions = range(60)
    with BrokerWorld(topics={"t": len(partitions)}) as world:
        places = [(partition, 0) for partition in partitions]
        asked = park(world, *places, min_bytes=len(partitions) * len(batch))
        looked_at: list[Log] = []
        slot: Any = vars(LogReader)["appended_bytes"]

        def look(log: Log) -> int:
            looked_at.append(log)
            size_bytes: int = slot.__get__(log)
            return size_bytes

        def grow(log: Log, size_bytes: int) -> None:
            slot.__set__(log, size_bytes)

        monkeypatch.setattr(Log, "appended_bytes", property(look, grow))
        for partition in partitions[1:]:
            world.produce(batch, partition=partition)
            assert len(set(looked_at)) == 1
            looked_at.clear()
        assert asked.answer is None
        world.produce(batch)
        found = asked.wait().responses[0].partitions
        assert [len(each.records) for each in found] == [len(batch)] * len(partitions)


def test_a_partition_that_is_asked_for_twice_counts_twice(world: BrokerWorld) -> None:
    """B-D2.3"""
    batch = batch_of(b"x" * 50)
    asked = park(world, (0, 0), (0, 0), min_bytes=6 * len(batch))
    for _ in range(2):
        world.produce(batch)
        assert asked.answer is None
    world.produce(batch)
    sizes = [len(each.records) for each in asked.wait().responses[0].partitions]
    assert sizes == [3 * len(batch)] * 2


def test_a_fetch_that_fails_while_it_waits_is_answered(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-A5.7: not the append that woke it, nor its client for ever."""
    asked = park(world, (0, 0))
    monkeypatch.setattr(FetchApi, "answer", Mock(side_effect=MemoryError("no room")))
    assert world.produce(batch_of(b"a")).error_code == 0
    (found,) = asked.wait().responses[0].partitions
    assert found.error_code == UNKNOWN_SERVER_ERROR
    assert world.state.purgatory.parked_count == 0


def test_a_fetch_ends_when_its_time_is_over_with_what_there_is(world: BrokerWorld) -> None:
    batch = batch_of(b"a")
    world.produce(batch)
    message = fetch_request([("t", 0, 0)], max_wait_ms=20, min_bytes=10_000)
    answer = world.post("Fetch", 12, message).wait()
    assert len(answer.responses[0].partitions[0].records) == len(batch)


def test_a_fetch_ends_with_an_error_when_its_topic_is_deleted(world: BrokerWorld) -> None:
    """B-D4.3"""
    for min_bytes in (1, 1000):
        world.state.topics.create("gone", 2)
        parts = [("t", 0, 0), ("gone", 0, 0)]
        message = fetch_request(parts, max_wait_ms=FOREVER_MS, min_bytes=min_bytes)
        asked = world.post("Fetch", 12, message)
        deleted = world.state.topics.delete("gone")
        for each in deleted.partitions:
            world.state.purgatory.check_and_complete(each)
        errors = [topic.partitions[0].error_code for topic in asked.wait().responses]
        assert errors == [NONE, UNKNOWN_TOPIC_OR_PARTITION]


def test_a_fetch_ends_with_an_error_when_the_leader_moves(world: BrokerWorld) -> None:
    """B-D2.3"""
    asked = park(world, (0, 0), leader_epoch=0)
    partition = world.state.topics.partition("t", 0)
    assert partition is not None
    move_leader(partition, 1, [0, 1])
    world.state.purgatory.check_and_complete(partition)
    found = asked.wait().responses[0].partitions[0]
    assert found.error_code == NOT_LEADER_OR_FOLLOWER


def test_a_fetch_ends_when_the_broker_stops(world: BrokerWorld) -> None:
    asked = park(world, (0, 0))
    world.state.close()
    assert asked.wait().responses[0].partitions[0].error_code == NONE


def test_the_same_partition_may_be_asked_for_twice(world: BrokerWorld) -> None:
    asked = park(world, (0, 0), (0, 0))
    world.produce(batch_of(b"a"))
    assert all(each.records for each in asked.wait().responses[0].partitions)


def test_no_long_poll_is_longer_than_the_cap() -> None:
    """B-B2.0"""
    with BrokerWorld(topics={"t": 1}, fetch_wait_cap_ms=5) as world:
        answer = world.post("Fetch", 12, fetch_request([("t", 0, 0)], max_wait_ms=FOREVER_MS))
        assert answer.wait().responses[0].partitions[0].error_code == NONE
    with BrokerWorld(topics={"t": 1}, fetch_wait_cap_ms=0) as world:
        assert world.ask("Fetch", 12, fetch_request([("t", 0, 0)], max_wait_ms=FOREVER_MS))


def test_everybody_is_told_to_read_from_the_leader(world: BrokerWorld) -> None:
    """B-D2.6: whatever rack it names; a topic is named, not identified, up to version 12."""
    world.produce(batch_of(b"a"))
    message = fetch_request([("t", 0, 0)])
    message.rack_id = "somewhere"
    for version in (11, 12):
        (topic,) = world.ask("Fetch", version, message).responses
        (found,) = topic.partitions
        assert (topic.topic, found.error_code, found.preferred_read_replica) == ("t", 0, -1)


def test_everybody_stays_without_a_session(world: BrokerWorld) -> None:
    """B-B2.5, B-D2.5: id 0 for those who ask for one; a session that nobody was given is not
    found.
    """
    assert world.ask("Fetch", 12, fetch_request([("t", 0, 0)], session=(0, 0))).session_id == 0
    refused = world.ask("Fetch", 12, fetch_request([], session=(5, 1)))
    assert (refused.error_code, refused.responses) == (FETCH_SESSION_ID_NOT_FOUND, [])
    closes = world.ask("Fetch", 12, fetch_request([("t", 0, 0)], session=(5, -1)))
    assert closes.error_code == NONE


def test_the_brokers_limit_counts_too() -> None:
    """B-D2.4"""
    with BrokerWorld(topics={"t": 1}, fetch_max_bytes=1024) as world:
        batch = batch_of(b"x" * 400)
        for _ in range(5):
            world.produce(batch)
        answer = world.ask("Fetch", 12, fetch_request([("t", 0, 0)]))
        assert len(answer.responses[0].partitions[0].records) == 2 * len(batch)


def test_aborted_transactions_are_null_or_none(world: BrokerWorld) -> None:
    """B-C7.5"""
    for level, expected in ((0, None), (1, [])):
        answer = world.ask("Fetch", 12, fetch_request([("t", 0, 0)], isolation_level=level))
        assert answer.responses[0].partitions[0].aborted_transactions == expected


def test_a_fetch_is_forgotten_with_its_connection(world: BrokerWorld) -> None:
    """B-A3.13: nothing of it is kept until its time is over."""
    asked = park(world, (0, 0), (2, 0))
    (connection,) = {
        each for each in world.state.purgatory._watchers if isinstance(each, Connection)
    }
    connection.is_open = False
    world.state.connection_ended(connection)
    assert world.state.purgatory.parked_count == 0
    assert asked.answer is None
    world.produce(batch_of(b"a"))
    assert asked.answer is None


def test_a_fetch_that_repeats_itself_does_not_wait(world: BrokerWorld) -> None:
    """Each append would look at all its repetitions."""
    parts = [("t", 0, 0)] * 102
    message = fetch_request(parts, max_wait_ms=FOREVER_MS)
    assert len(world.ask("Fetch", 12, message).responses[0].partitions) == 102


def test_only_so_many_bytes_of_requests_wait(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_MOST_PARKED_BYTES", 200)
    first = park(world, (0, 0))
    message = fetch_request([("t", 0, 0), ("t", 2, 0)] * 10, max_wait_ms=FOREVER_MS)
    assert world.ask("Fetch", 12, message) is not None
    world.produce(batch_of(b"a"))
    assert first.answer is not None
    # What was answered takes no room any more.
    park(world, (0, 1))
