"""What brokers say about single records: their errors, times and offsets (P-F.4.5, P-A.2)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fastprod import KafkaProducer, RecordFuture, RecordMetadata
from fastprod.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    RecordTooLargeError,
    TopicAuthorizationError,
)
from fastprod.protocol.api_keys import PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

MESSAGE_TOO_LARGE = 10
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_TIMESTAMP = 32
INVALID_RECORD = 87
COUNT = 5

BAD_ARGUMENTS: list[tuple[str, str, Any]] = [
    ("partition must be .* not -1", "partition", -1),
    ("not 4,294,967,296", "partition", 1 << 32),
    ("partition must be .* not float", "partition", 1.5),
    ("timestamp_ms must be .* not -1", "timestamp_ms", -1),
    ("not 9,223,372,036,854,775,808", "timestamp_ms", 1 << 63),
    ("timestamp_ms must be .* not float", "timestamp_ms", 1.5),
    ("value must be .* not str", "value", "text"),
    ("key must be .* not int", "key", 5),
    ("a header must be a .* pair", "headers", [("name",)]),
    ("a header's name must be a str, not bytes", "headers", [(b"name", b"value")]),
    ("the value of header 'name' must be .* not int", "headers", [("name", 5)]),
]
COLUMN_OF = {
    "partition": "partitions",
    "timestamp_ms": "timestamps_ms",
    "value": "values",
    "key": "keys",
    "headers": "headers",
}


def send_batch(producer: KafkaProducer, **settings: Any) -> list[RecordFuture]:
    """One batch of five records for t-0."""
    producer.warmup("t")
    futures = [
        producer.send("t", b"%d" % number, partition=0, **settings) for number in range(COUNT)
    ]
    producer.flush(WAIT_S)
    return futures


def test_each_record_that_is_named_has_its_own_error_and_the_others_a_plain_one(
    peer: Peer,
) -> None:
    """P-F.4.5, P-L.117 testRecordErrorPropagatedToApplication; KIP-467."""
    peer.on(PRODUCE).error(
        INVALID_RECORD, message="the batch is bad", record_errors={0: "no key", 2: None, 3: "odd"}
    )
    seen: list[tuple[RecordMetadata, KafkaError | None]] = []
    with quick_producer(peer, linger_ms=60_000) as producer:
        futures = send_batch(
            producer, on_delivery=lambda metadata, error: seen.append((metadata, error))
        )
        errors = [future.exception(0) for future in futures]
        assert [type(error) for error in errors] == [
            InvalidRecordError,
            KafkaError,
            InvalidRecordError,
            InvalidRecordError,
            KafkaError,
        ]
        assert "no key" in str(errors[0])
        assert "the batch is bad" in str(errors[2])
        assert "odd" in str(errors[3])
        for index in (1, 4):
            assert "part of a batch which had one or more invalid records (3)" in str(errors[index])
        assert all("topic 't', partition 0" in str(error) for error in errors)
        again = [producer.send("t", b"%d" % number, partition=0) for number in (1, 4)]
        assert [future.result(WAIT_S).offset for future in again] == [0, 1]
    assert [(each[0].partition, each[0].offset) for each in seen] == [(0, -1)] * COUNT
    assert [str(each[1]) for each in seen] == [str(error) for error in errors]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(INVALID_TIMESTAMP, InvalidTimestampError), (INVALID_RECORD, InvalidRecordError)],
)
def test_a_single_record_that_is_named_has_the_partitions_error(
    peer: Peer, code: int, kind: type[KafkaError]
) -> None:
    """P-F.4.5: exactly one: its class is that of the code."""
    peer.on(PRODUCE).error(code, record_errors={1: "from the past"})
    with quick_producer(peer, linger_ms=60_000) as producer:
        errors = [future.exception(0) for future in send_batch(producer)]
    assert type(errors[1]) is kind
    assert "from the past" in str(errors[1])
    assert f"({code})" in str(errors[1])
    assert [type(errors[index]) for index in (0, 2, 3, 4)] == [KafkaError] * 4


def test_old_brokers_name_no_records_and_all_fail_alike(peer: Peer) -> None:
    """P-F.4.5: below version 8 there is nothing but the code."""
    peer.speak(PRODUCE, 0, 7)
    peer.on(PRODUCE).error(INVALID_RECORD, message="unheard", record_errors={0: "unheard"})
    with quick_producer(peer, linger_ms=60_000) as producer:
        errors = [future.exception(0) for future in send_batch(producer)]
    assert [type(error) for error in errors] == [InvalidRecordError] * COUNT
    assert not any("unheard" in str(error) for error in errors)


def test_a_batch_without_right_fails_with_the_topic_and_the_next_is_none_the_worse(
    peer: Peer,
) -> None:
    """P-F.4.4, P-F.5.8: not retried; sequences go on without a gap."""
    rule = peer.on(PRODUCE).error(TOPIC_AUTHORIZATION_FAILED)
    with quick_producer(peer, linger_ms=60_000) as producer:
        errors = [future.exception(0) for future in send_batch(producer)]
        assert [type(error) for error in errors] == [TopicAuthorizationError] * COUNT
        assert isinstance(errors[0], TopicAuthorizationError)
        assert (errors[0].topic, errors[0].partition) == ("t", 0)
        assert rule.hits == 1
        assert [each.exception(0) for each in send_batch(producer)] == [None] * COUNT
    assert peer.values("t", 0) == [b"%d" % number for number in range(COUNT)]


def test_a_record_larger_than_the_broker_takes_fails_with_its_size(new_peer: PeerFactory) -> None:
    """P-D.9.1: too large a record."""
    peer = new_peer({"t": 1}, max_message_bytes=10_000)
    with quick_producer(peer) as producer:
        error = producer.send("t", bytes(20_000)).exception(WAIT_S)
        assert isinstance(error, RecordTooLargeError)
        assert error.code == MESSAGE_TOO_LARGE
        for word in ("1 record(s)", "max.message.bytes", "'t', partition 0"):
            assert word in str(error)
        assert error.size_bytes is not None
        assert 20_000 <= error.size_bytes < 20_100
        assert producer.send("t", bytes(9_000)).result(WAIT_S).offset == 0


@pytest.mark.parametrize("log_append_ms", [-1, 1_700_000_000_123])
def test_a_record_has_the_brokers_time_if_it_tells_one(peer: Peer, log_append_ms: int) -> None:
    """P-A.2.3, P-A.2.4: LogAppendTime; else its own."""
    peer.set_offsets("t", 0, next_offset=100)
    peer.on(PRODUCE).answer(log_append_time=log_append_ms)
    with quick_producer(peer, linger_ms=60_000) as producer:
        found = [each.result(0) for each in send_batch(producer, key=b"key", timestamp_ms=55)]
    assert [each.offset for each in found] == [100, 101, 102, 103, 104]
    assert {each.timestamp for each in found} == {55 if log_append_ms < 0 else log_append_ms}
    assert {(each.serialized_key_size, each.serialized_value_size) for each in found} == {(3, 1)}


def test_without_an_offset_in_the_answer_none_is_made_up(peer: Peer) -> None:
    """P-A.2.3: unknown is unknown for every record of the batch."""
    peer.on(PRODUCE).answer(base_offset=-1)
    with quick_producer(peer, linger_ms=60_000) as producer:
        found = [future.result(0) for future in send_batch(producer)]
    assert {each.offset for each in found} == {-1}
    assert not any(each.has_offset for each in found)


def test_bad_arguments_are_raised_and_send_nothing(peer: Peer) -> None:
    """P-A.2.1, P-A.3.12 (fourth row): each says what was wrong with it."""
    with quick_producer(peer) as producer:
        for words, name, bad in BAD_ARGUMENTS:
            with pytest.raises((TypeError, ValueError), match=words):
                producer.send("t", **{"value": b"x", name: bad})
            ((row, error),) = producer.send_many(
                "t", **{"values": [b"x"], COLUMN_OF[name]: [bad]}
            ).failures(0)
            assert row == 0
            assert re.search(words, str(error))
            assert isinstance(error.__cause__, TypeError | ValueError)
        ((row, error),) = producer.send_many("t", [b"x"], timestamps_ms=1 << 63).failures(0)
        assert "timestamp_ms must be" in str(error)
        with pytest.raises(TypeError, match="on_delivery must be callable"):
            producer.send("t", b"x", on_delivery="f")  # type: ignore[arg-type]
        assert producer.send("t", b"good", partition=0).result(WAIT_S).offset == 0
    assert len(peer.requests(PRODUCE)) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.str_("text"), "not str_"),
        (np.array([b"bytes"], dtype=object), "not ndarray of Python objects"),
        (np.array([(b"bytes",)], dtype=[("a", "O")])[0], "not void of Python objects"),
        (np.float64(1.5), "not float64"),
        (np.array([7, 8])[0], "not int64"),
        (np.bool_(True), "not bool"),
        (np.datetime64("2026-11-28T17:03", "ms"), "not datetime64"),
        (np.timedelta64(1, "s"), "not timedelta64"),
        (np.array([[1, 2], [3, 4]], order="F"), "a contiguous buffer or None, not ndarray"),
    ],
    ids=[
        "text",
        "objects",
        "a structure of objects",
        "a float",
        "an integer",
        "a truth value",
        "a time",
        "a duration",
        "not contiguous",
    ],
)
def test_a_buffer_of_text_of_objects_or_of_a_number_is_not_taken_for_bytes(
    peer: Peer, data: Any, words: str
) -> None:
    """What numpy keeps in such a buffer is UTF-32, addresses, a number as this machine has it."""
    with quick_producer(peer) as producer:
        for name in ("value", "key", "headers"):
            bad: Any = [("name", data)] if name == "headers" else data
            arguments: dict[str, Any] = {"value": b"x", name: bad}
            columns: dict[str, Any] = {"values": [b"x"], COLUMN_OF[name]: [bad]}
            with pytest.raises(TypeError, match=words):
                producer.send("t", **arguments)
            ((_, error),) = producer.send_many("t", **columns).failures(0)
            assert words in str(error)
            with pytest.raises(TypeError, match=words):
                producer.append_columns(topic="t", **columns)
        rows = np.array([[b"a", b"b"]], dtype=object)
        with pytest.raises(TypeError, match="of Python objects"):
            producer.append_columns(topic="t", values=rows)
        ((_, error),) = producer.send_many("t", np.array(["text"])).failures(0)
        assert "not str_" in str(error)
    assert peer.requests(PRODUCE) == []
