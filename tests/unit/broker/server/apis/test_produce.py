"""Produce: each partition its own answer; acks=0 none (B-D1, B-A6.3)."""

from __future__ import annotations

import gzip
import threading
from typing import Any

import pytest

from fastprod.broker.server.apis import produce
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from support.broker.replica_world import pause, replicated
from support.broker.world import CLOSED, NOTHING, BrokerWorld, batch_of, produce_request
from support.oracle.record_batch import decode_batches, encode_batch


def test_a_failure_is_the_partitions_own() -> None:
    """B-D1.1"""
    with BrokerWorld(topics={"t": 2, "u": 1}) as world:
        message = produce_request(
            [
                ("t", 0, batch_of(b"a")),
                ("t", 9, batch_of(b"a")),
                ("t", 1, batch_of(b"a")[:-1] + b"\xff"),
                ("u", 0, batch_of(b"a", b"b")),
            ]
        )
        answer = world.ask("Produce", 9, message)
    found = [
        (topic.name, each.index, each.error_code, each.base_offset, each.log_start_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]
    assert found == [
        ("t", 0, NONE, 0, 0),
        ("t", 9, UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        ("t", 1, CORRUPT_MESSAGE, -1, -1),
        ("u", 0, NONE, 0, 0),
    ]
    assert answer.throttle_time_ms == 0


@pytest.mark.parametrize("version", range(3, 10))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_served_version_appends(version: int, acks: int) -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        for offset in (0, 1):
            found = world.produce(batch_of(b"a"), acks=acks, version=version)
            assert (found.error_code, found.base_offset) == (NONE, offset)


def test_acks_all_does_not_wait_for_replicas_of_a_deleted_topic() -> None:
    """B-D4.3: the followers would never have it."""
    with BrokerWorld(brokers=3) as world:
        replicated(world)
        pause(world, 1, 2)
        asked = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
        before: Any = asked.answer
        assert before is None
        world.state.topic_deleted(world.state.topics.delete("t"))
        answer: Any = asked.answer
        pause(world)
    assert answer.responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_on_every_partition(acks: int) -> None:
    """B-D1 INVALID_REQUIRED_ACKS: nothing is appended."""
    with BrokerWorld(topics={"t": 2}) as world:
        message = produce_request([("t", 0, batch_of(b"a")), ("t", 1, batch_of(b"a"))], acks)
        answer = world.ask("Produce", 9, message)
        found = [each.error_code for each in answer.responses[0].partition_responses]
        assert found == [INVALID_REQUIRED_ACKS] * 2
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        assert partition.log.log_end_offset == 0


def test_acks_0_is_never_answered_and_an_error_closes_the_connection() -> None:
    """B-D1.4, B-A6.3: what stands beside the error is appended."""
    with BrokerWorld(topics={"t": 1}) as world:
        good = produce_request([("t", 0, batch_of(b"a"))], acks=0)
        assert world.ask("Produce", 9, good) == NOTHING
        bad = produce_request([("t", 0, batch_of(b"b")), ("t", 9, batch_of(b"b"))], acks=0)
        assert world.ask("Produce", 9, bad) == CLOSED
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        assert partition.log.log_end_offset == 2


def test_records_at_fault_are_named_from_version_8_on() -> None:
    """B-D1.2"""
    with BrokerWorld(topics={"t": 1}) as world:
        late = world.clock.time_ms() + 10_000_000
        for version, count in ((7, 0), (8, 3)):
            found = world.produce(batch_of(b"a", b"b", b"c", timestamp=late), version=version)
            assert found.error_code == 32
            assert len(found.record_errors) == count
            assert (found.error_message is not None) == (count > 0)
        assert [each.batch_index for each in found.record_errors] == [0, 1, 2]
        assert all(each.batch_index_error_message for each in found.record_errors)


def test_a_batch_over_the_topics_limit_is_too_large() -> None:
    """B-D1 MESSAGE_TOO_LARGE: the whole batch, header included."""
    batch = batch_of(b"x" * 100)
    with BrokerWorld() as world:
        world.state.topics.create("t", config={"max.message.bytes": str(len(batch))})
        assert world.produce(batch).error_code == NONE
        assert world.produce(batch_of(b"x" * 101)).error_code == 10


def test_a_keyless_record_is_refused_by_a_compacted_topic() -> None:
    """B-D1 INVALID_RECORD-key, B-C4.6."""
    with BrokerWorld() as world:
        world.state.topics.create("t", config={"cleanup.policy": "compact"})
        found = world.produce(batch_of(b"a"))
        assert found.error_code == INVALID_RECORD
        assert [each.batch_index for each in found.record_errors] == [0]


def test_a_repeated_batch_gets_its_first_offset_and_is_not_appended() -> None:
    """B-C6.2"""

    def batch(sequence: int, epoch: int = 0) -> bytes:
        return batch_of(
            b"a", b"b", producer_id=5, producer_epoch=epoch, base_sequence=sequence, timestamp=1
        )

    with BrokerWorld(topics={"t": 1}) as world:
        answers = [
            world.produce(batch(sequence, epoch))
            for sequence, epoch in ((0, 0), (2, 0), (0, 0), (6, 0), (0, 1), (4, 0))
        ]
    assert [(each.error_code, each.base_offset) for each in answers] == [
        (0, 0),
        (0, 2),
        (0, 0),
        (45, -1),
        (0, 4),
        (47, -1),
    ]


def test_with_log_append_time_the_brokers_clock_is_told_and_stored() -> None:
    """B-C2.2"""
    clock = FakeClock(1_700_000_000_000)
    with BrokerWorld(clock=clock) as world:
        world.state.topics.create("t", config={"message.timestamp.type": "LogAppendTime"})
        clock.advance(5)
        assert world.produce(batch_of(b"a", timestamp=1)).log_append_time_ms == 1_700_000_000_005
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        data = b"".join(map(bytes, partition.log.read(0, 1 << 20, True)))
        assert decode_batches(data)[0].max_timestamp == 1_700_000_000_005


def test_a_plain_batch_may_come_with_a_transactional_id() -> None:
    """B-E4: as in Kafka, only batches say what belongs to a transaction."""
    with BrokerWorld(topics={"t": 1}) as world:
        message = produce_request([("t", 0, batch_of(b"a"))], transactional_id="x")
        answer = world.ask("Produce", 9, message)
        assert answer.responses[0].partition_responses[0].error_code == NONE


def test_a_transactional_batch_of_no_transaction_is_refused_with_all_others() -> None:
    """B-D1 TRANSACTIONAL_ID_AUTHORIZATION_FAILED: of the request, as Kafka does."""
    odd = batch_of(b"b", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    with BrokerWorld(topics={"t": 2}) as world:
        message = produce_request([("t", 0, batch_of(b"a")), ("t", 1, odd)])
        answer = world.ask("Produce", 9, message)
        found = [each.error_code for each in answer.responses[0].partition_responses]
        assert found == [TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
        for index in range(2):
            partition = world.state.topics.partition("t", index)
            assert partition is not None
            assert partition.log.log_end_offset == 0


def test_another_nodes_partition_is_refused() -> None:
    """B-D1 NOT_LEADER_OR_FOLLOWER."""
    with BrokerWorld(brokers=2, topics={"t": 2}) as world:
        found = world.produce(batch_of(b"a"), partition=1, node_id=0)
        assert found.error_code == NOT_LEADER_OR_FOLLOWER
        assert world.produce(batch_of(b"a"), partition=1, node_id=1).error_code == NONE


def test_who_asks_another_node_is_told_the_leader_from_version_10_on() -> None:
    """B-D1 NOT_LEADER_OR_FOLLOWER: its id, epoch and address (KIP-951)."""
    with BrokerWorld(brokers=2, topics={"t": 2}) as world:
        for version in (9, 10):
            message = produce_request([("t", 1, batch_of(b"a"))])
            answer = world.post("Produce", version, message).wait()
            (found,) = answer.responses[0].partition_responses
            assert found.error_code == NOT_LEADER_OR_FOLLOWER
            told = (found.current_leader.leader_id, found.current_leader.leader_epoch)
            nodes = [(each.node_id, each.port) for each in answer.node_endpoints]
            assert (told, nodes) == (((1, 0), [(1, 9001)]) if version == 10 else ((-1, -1), []))


def packed(size: int) -> bytes:
    """A batch with one record of so many zeros, by zlib."""
    record = [(0, None, bytes(size))]
    return encode_batch(record, codec=1, compress=gzip.compress)


def test_a_batch_that_grows_large_is_looked_at_aside() -> None:
    """The network's thread goes on; the answers and their order are the same."""
    with BrokerWorld(topics={"t": 3}) as world:
        batches: list[tuple[str, int, bytes | None]] = [
            ("t", 0, batch_of(b"a")),
            ("t", 1, packed(9_000_000)),
            ("t", 2, batch_of(b"b")),
        ]
        asked = world.post("Produce", 9, produce_request(batches))
        answer = asked.wait()
        found = answer.responses[0].partition_responses
        assert [(each.index, each.error_code) for each in found] == [(0, 0), (1, 0), (2, 0)]
        topic = world.state.topics.get("t")
        assert topic is not None
        assert [each.log.log_end_offset for each in topic.partitions] == [1, 1, 1]
        assert {each.name for each in threading.enumerate()} >= {"fastprod-broker-overflow"}


def test_a_bomb_is_refused_aside() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        asked = world.post("Produce", 9, produce_request([("t", 0, packed(110_000_000))]))
        (found,) = asked.wait().responses[0].partition_responses
        assert found.error_code == 10
        assert "104857600" in found.error_message


def test_without_acknowledgement_a_bomb_ends_its_connection() -> None:
    """B-A6.3"""
    with BrokerWorld(topics={"t": 1}) as world:
        bomb = packed(110_000_000)
        assert world.post("Produce", 9, produce_request([("t", 0, bomb)], 0)).wait() is CLOSED


def test_a_request_that_keeps_the_thread_busy_goes_on_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(produce, "_QUICK_NS", -1_000_000_000)
    with BrokerWorld(topics={"t": 2}) as world:
        batches: list[tuple[str, int, bytes | None]] = [
            ("t", 0, batch_of(b"a")),
            ("t", 1, batch_of(b"b")),
            ("t", 0, batch_of(b"c")),
        ]
        found = world.post("Produce", 9, produce_request(batches)).wait()
        offsets = [each.base_offset for each in found.responses[0].partition_responses]
        assert offsets == [0, 0, 1]


def test_what_waits_aside_at_the_end_is_given_up() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        world.state.overflow_worker.close()
        assert (
            world.post("Produce", 9, produce_request([("t", 0, packed(9_000_000))])).wait()
            is CLOSED
        )
