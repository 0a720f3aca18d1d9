"""What becomes of a batch after its request (contract P-F.4, P-D.9, P-D.10.3, P-H.6, P-G.8).

P-L.57, P-L.72, P-L.76, P-L.115 (the non-idempotent part), P-L.117, P-L.119, P-L.125, P-L.129 and
P-L.130 (SenderTest, ProducerBatchTest).
"""

from __future__ import annotations

from typing import Any

import pytest

from fastprod._core.engine.control_queue import EventKind, ProtocolFault
from fastprod.error_codes import KAFKA_ERRORS
from fastprod.errors import (
    InvalidRecordError,
    KafkaError,
    NetworkError,
    error_for_code,
)
from fastprod.records import RecordMetadata
from support.engine.sender_steps import (
    TOPIC,
    Steps,
    offset,
    outcome,
    partition_answer,
    produce_response,
)

UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER = 6
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
NETWORK_EXCEPTION = 13
NOT_ENOUGH_REPLICAS = 19
TOPIC_AUTHORIZATION_FAILED = 29
OUT_OF_ORDER = 45
DUPLICATE_SEQUENCE = 46
UNKNOWN_PRODUCER_ID = 59
FENCED_LEADER_EPOCH = 74
INVALID_RECORD = 87

# What P-F.4 treats in a way of its own.
SPECIAL = {0, MESSAGE_TOO_LARGE, OUT_OF_ORDER, DUPLICATE_SEQUENCE, UNKNOWN_PRODUCER_ID}
CODES = sorted(set(KAFKA_ERRORS) - SPECIAL)


def plain(partitions: int = 1, **config: Any) -> Steps:
    """A producer without idempotence."""
    return Steps([(0, 0)] * partitions, enable_idempotence=False, **config)


def error_of(future: Any) -> KafkaError:
    found = outcome(future)
    assert isinstance(found, KafkaError)
    return found


# Success (P-F.4.2, P-A.2.3, P-A.2.4).


def test_a_batch_in_the_answer_is_delivered() -> None:
    """P-L.83 testSimple: one request, one batch in flight, offset 0; P-F.4.2."""
    sender = Steps()
    future = sender.send(b"value", key=b"key", at_ms=123)
    handle = sender.drain()
    assert len(sender.in_flight()) == 1
    sender.succeed(handle, 0)
    assert outcome(future) == RecordMetadata(TOPIC, 0, 0, 123, 3, 5)
    assert sender.in_flight() == []
    assert sender.memory_is_back()


def test_log_append_time_takes_the_place_of_the_records_own() -> None:
    """P-A.2.4."""
    sender = Steps()
    future = sender.send(at_ms=123)
    sender.answer(sender.drain(), base_offset=5, log_append_time=999)
    found = outcome(future)
    assert isinstance(found, RecordMetadata)
    assert (found.offset, found.timestamp) == (5, 999)


def test_each_partition_of_an_answer_has_its_own_end() -> None:
    """P-F.4.2."""
    sender = plain(4)
    futures = [sender.send(partition=partition) for partition in range(4)]
    sender.answer(
        sender.drain(),
        {
            0: {"base_offset": 10},
            1: {"error_code": INVALID_RECORD},
            2: {"error_code": NOT_ENOUGH_REPLICAS},
            3: {"base_offset": 40},
        },
    )
    assert (offset(futures[0]), offset(futures[3])) == (10, 40)
    assert isinstance(outcome(futures[1]), InvalidRecordError)
    assert outcome(futures[2]) is None
    assert len(sender.queue(2)) == 1


def test_answers_may_come_in_any_order_of_partitions() -> None:
    """P-F.4.2, P-J.3.5: they are matched by topic and index."""
    sender = plain(3)
    futures = [sender.send(partition=partition) for partition in range(3)]
    handle = sender.drain()
    told = [partition_answer(index, base_offset=index * 10) for index in (2, 0, 1)]
    assert sender.door.answer(handle, produce_response(sender.version, {TOPIC: told}))
    assert [offset(each) for each in futures] == [0, 10, 20]


def test_without_acks_a_request_that_left_is_delivered() -> None:
    """P-F.3.2: no offset, the record's own time."""
    sender = plain(2, acks=0)
    futures = [sender.send(partition=partition, at_ms=77) for partition in (0, 1)]
    sender.door.sent_without_answer(sender.drain())
    for future in futures:
        found = outcome(future)
        assert isinstance(found, RecordMetadata)
        assert (found.offset, found.timestamp) == (-1, 77)
    assert sender.memory_is_back()


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_of_the_answer_is_understood(version: int) -> None:
    """P-F.3.3, P-F.4.2."""
    sender = Steps(version=version)
    good = sender.send()
    sender.succeed(sender.drain(), 3)
    assert offset(good) == 3
    bad = sender.send()
    sender.refuse(sender.drain(), INVALID_RECORD)
    assert isinstance(outcome(bad), InvalidRecordError)


# Errors (P-F.4.3, P-F.4.4).


@pytest.mark.parametrize("code", CODES)
def test_an_error_is_retried_if_it_is_retriable_and_otherwise_raised(code: int) -> None:
    """P-F.4, the table: and metadata is asked for where it is stale."""
    sender = plain()
    future = sender.send()
    sender.refuse(sender.drain(), code)
    row = KAFKA_ERRORS[code]
    if row.retriable:
        assert outcome(future) is None
        assert len(sender.queue()) == 1
    else:
        assert type(outcome(future)) is type(error_for_code(code))
        assert error_of(future).code == code
        assert sender.memory_is_back()
    wanted = sender.events(EventKind.ON_METADATA_WANTED)
    assert bool(wanted) == row.refresh_metadata


def test_a_code_that_nobody_knows_fails_the_batch() -> None:
    """P-F.4 "other"."""
    sender = plain()
    future = sender.send()
    sender.refuse(sender.drain(), 31000)
    assert error_of(future).code == 31000
    assert sender.queue() == []


def test_retries_are_counted() -> None:
    """P-L.84 testRetries, P-F.4.3: with one, the first loss is retried; the second is the end."""
    sender = plain(retries=1)
    future = sender.send(b"a")
    sender.door.fail(sender.drain())
    sender.pass_time(1000)
    sender.succeed(sender.drain(), 4)
    assert offset(future) == 4
    future = sender.send(b"b")
    sender.door.fail(sender.drain())
    sender.pass_time(1000)
    sender.door.fail(sender.drain())
    assert isinstance(outcome(future), NetworkError)
    assert sender.memory_is_back()


def test_without_retries_a_retriable_error_is_raised() -> None:
    """P-F.4.3."""
    sender = plain(retries=0)
    future = sender.send()
    sender.refuse(sender.drain(), NOT_ENOUGH_REPLICAS)
    assert error_of(future).code == NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("code", [REQUEST_TIMED_OUT, NETWORK_EXCEPTION])
def test_the_end_of_a_connection_is_for_every_batch_of_the_request(code: int) -> None:
    """P-F.4.1: in the order they had."""
    sender = plain(3, batch_size=200)
    for partition in range(3):
        sender.send(b"1" * 100, partition)
        sender.send(b"2" * 100, partition)
    sender.door.fail(sender.drain(), code)
    for partition in range(3):
        assert [each["attempts"] for each in sender.queue(partition)] == [1, 0]
    assert sender.counters()["records_retried"] == 3


def test_a_partition_that_the_answer_leaves_out_is_retried_and_told() -> None:
    """P-F.4.1: as after a lost connection."""
    sender = plain(2)
    futures = [sender.send(partition=partition) for partition in (0, 1)]
    told = [partition_answer(1, base_offset=9)]
    payload = produce_response(sender.version, {TOPIC: told})
    assert sender.door.answer(sender.drain(), payload)
    assert outcome(futures[0]) is None
    assert len(sender.queue(0)) == 1
    assert offset(futures[1]) == 9
    (event,) = sender.events(EventKind.ON_PROTOCOL_ERROR)
    assert (event.fault, event.item_count) == (ProtocolFault.FAULT_MISSING, 1)


def test_answers_that_nobody_asked_for_are_passed_over() -> None:
    """P-F.4.1: another partition, another topic, and one partition twice."""
    sender = plain(2)
    future = sender.send(partition=0)
    handle = sender.drain()
    told = [
        partition_answer(5, base_offset=1),
        partition_answer(0, base_offset=2),
        partition_answer(0, base_offset=3),
    ]
    other = [partition_answer(0, base_offset=4)]
    payload = produce_response(sender.version, {"other": other, TOPIC: told})
    assert sender.door.answer(handle, payload)
    assert offset(future) == 2
    assert sender.memory_is_back()


def test_of_an_answer_that_does_not_parse_nothing_is_believed() -> None:
    """P-G.2.2: whole answers are looked at first; the connection is lost."""
    sender = plain(2)
    futures = [sender.send(partition=partition) for partition in (0, 1)]
    handle = sender.drain()
    told = [partition_answer(index, base_offset=1) for index in (0, 1)]
    payload = produce_response(sender.version, {TOPIC: told})
    assert not sender.door.answer(handle, payload[:-3])
    assert [outcome(each) for each in futures] == [None, None]
    assert [len(sender.queue(partition)) for partition in (0, 1)] == [1, 1]


# Texts (P-F.4.4, P-F.4.5).


def test_the_brokers_text_is_preferred() -> None:
    """P-L.125 testCustomErrorMessage, testDefaultErrorMessage."""
    sender = plain()
    future = sender.send()
    sender.refuse(sender.drain(), INVALID_RECORD, error_message="no key, no entry")
    assert "no key, no entry" in str(error_of(future))
    future = sender.send()
    sender.refuse(sender.drain(), INVALID_RECORD)
    assert str(error_of(future))


def test_the_topic_is_in_the_error_of_a_topic_not_authorized() -> None:
    """P-F.4.4."""
    sender = plain()
    future = sender.send()
    sender.refuse(sender.drain(), TOPIC_AUTHORIZATION_FAILED)
    assert error_of(future).topic == TOPIC


def test_records_at_fault_are_told_apart() -> None:
    """P-L.117 testRecordErrorPropagatedToApplication, P-L.76
    testCompleteExceptionallyWithRecordErrors, P-F.4.5: indexes 0, 2 and 3 with a text of their own,
    or the batch's; the others are innocent."""
    sender = plain()
    futures = [sender.send(b"%d" % number) for number in range(5)]
    sender.refuse(
        sender.drain(),
        INVALID_RECORD,
        error_message="something is wrong",
        record_errors=[
            {"batch_index": 0, "batch_index_error_message": "the first"},
            {"batch_index": 2, "batch_index_error_message": None},
            {"batch_index": 3, "batch_index_error_message": "the last"},
        ],
    )
    errors = [error_of(each) for each in futures]
    for index, text in ((0, "the first"), (2, "something is wrong"), (3, "the last")):
        assert isinstance(errors[index], InvalidRecordError)
        assert text in str(errors[index])
    for index in (1, 4):
        assert type(errors[index]) is KafkaError
        assert "part of a batch which had one or more invalid records" in str(errors[index])


def test_a_single_record_at_fault_has_the_batchs_class() -> None:
    """P-F.4.5."""
    sender = plain()
    futures = [sender.send() for _ in range(2)]
    sender.refuse(
        sender.drain(),
        32,
        record_errors=[{"batch_index": 1, "batch_index_error_message": "from the future"}],
    )
    assert error_of(futures[1]).code == 32
    assert "from the future" in str(error_of(futures[1]))
    assert type(error_of(futures[0])) is KafkaError


# Completion (P-D.10.3, P-D.10.4).


def test_callbacks_run_in_order_before_anybody_sees_that_it_is_done() -> None:
    """P-L.72, P-D.10.4, P-A.3.13, P-A.3.14: once each, results stored first."""
    sender = plain()
    seen: list[tuple[int, bool]] = []
    futures = [sender.send() for _ in range(4)]
    for number, future in enumerate(futures):
        future.add_callback(
            lambda metadata, number: seen.append((metadata.offset, futures[number].done())),
            number=number,
        )
    sender.succeed(sender.drain(), 20)
    assert [future.done() for future in futures] == [False] * 4
    sender.engine.run_deliveries(0)
    assert [place for place, _ in seen] == [20, 21, 22, 23]
    assert [future.done() for future in futures] == [True] * 4
    sender.engine.run_deliveries(0)
    assert len(seen) == 4


def test_a_batch_is_complete_once() -> None:
    """P-L.72 testBatchCannotCompleteTwice, testBatchCannotAbortTwice, P-D.10.3."""
    sender = plain()
    future = sender.send()
    sender.succeed(sender.drain(), 4)
    sender.door.abort(31)
    sender.pass_time(1_000_000)
    sender.door.expire()
    assert offset(future) == 4
    assert sender.counters()["records_acked"] == 1
    assert sender.counters()["records_failed"] == 0


# Leaders (P-H.6) and throttling (P-G.8).


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED_LEADER_EPOCH])
def test_a_newer_leader_in_the_answer_is_used_at_once(code: int) -> None:
    """P-L.129 testWhenProduceResponseReturnsWithALeaderShipChangeErrorAndNewLeaderInformation,
    P-H.6: the retry goes without backoff; metadata is asked for all the same."""
    sender = Steps([(0, 5), (1, 5)])
    future = sender.send()
    sender.door.events()
    sender.refuse(
        sender.drain(),
        code,
        current_leader={"leader_id": 1, "leader_epoch": 6},
        endpoints=[{"node_id": 1, "host": "there", "port": 9, "rack": None}],
    )
    events = sender.door.events()
    (hint,) = [each for each in events if each.kind == EventKind.ON_LEADER_HINT]
    assert (hint.topic, hint.partition, hint.node_id, hint.leader_epoch) == (TOPIC, 0, 1, 6)
    assert (hint.data, hint.port) == (b"there", 9)
    assert [each.code for each in events if each.kind == EventKind.ON_METADATA_WANTED] == [code]
    sender.succeed(sender.drain(1), 3)
    assert offset(future) == 3


@pytest.mark.parametrize(("leader", "epoch"), [(1, 5), (1, 4), (-1, 6), (-1, -1)])
def test_an_older_leader_in_the_answer_is_none(leader: int, epoch: int) -> None:
    """P-L.129 ...ButNoNewLeaderInformation, P-H.6: backoff, and a question for metadata."""
    sender = Steps([(0, 5), (1, 5)])
    sender.send()
    sender.door.events()
    sender.refuse(
        sender.drain(),
        NOT_LEADER,
        current_leader={"leader_id": leader, "leader_epoch": epoch},
    )
    assert sender.state()["leader_slot"] == 0
    assert sender.nothing_goes(0)
    assert sender.nothing_goes(1)
    events = {each.kind for each in sender.door.events()}
    assert EventKind.ON_LEADER_HINT not in events
    assert EventKind.ON_METADATA_WANTED in events


def test_a_leader_that_no_slot_has_is_told_and_waited_for() -> None:
    """P-H.6: its address has to be learnt first; a slot never named is nobody's."""
    sender = Steps([(0, 5)])
    sender.door.connect(3)
    sender.send()
    sender.refuse(sender.drain(), NOT_LEADER, current_leader={"leader_id": 7, "leader_epoch": 6})
    assert sender.state()["leader_slot"] == 0
    (hint,) = sender.events(EventKind.ON_LEADER_HINT)
    assert (hint.partition, hint.node_id, hint.leader_epoch) == (0, 7, 6)
    sender.lead([(3, 6)])
    assert sender.values(sender.drain(3)) == [b"v"]


def test_a_slot_without_a_node_is_nobodys() -> None:
    """P-H.6: no node has id 0 before it is said so."""
    sender = Steps([(2, 5)])
    sender.door.connect(1)
    sender.send()
    sender.refuse(sender.drain(2), NOT_LEADER, current_leader={"leader_id": 0, "leader_epoch": 6})
    assert sender.state()["leader_slot"] == 2


def test_throttle_times_are_counted() -> None:
    """P-L.130 testQuotaMetrics: 400, 100, 200 and 300; the largest is 400, the average 250."""
    sender = plain()
    for throttle_ms in (400, 100, 200, 300):
        sender.send()
        sender.answer(sender.drain(), base_offset=0, throttle_ms=throttle_ms)
    counters, maxima, *_ = sender.engine.measure(False)
    assert counters["throttle_ms"] == 1000
    assert counters["responses"] == 4
    assert maxima["longest_throttle_ms"] == 400
