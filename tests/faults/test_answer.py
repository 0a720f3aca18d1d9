"""Answers that are cut short, garbled, of the wrong request or too long (contract P-G.2, P-G.7.2).

Whatever a broker sends, the producer lives, says what was wrong and with whom, and every record
arrives once and in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.errors import DeliveryTimeoutError, MetadataTimeoutError
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer, wait_for_failure
from support.peer.journal import Request
from support.peer.script import Rule
from support.peer.scripted_peer import Peer

COUNT = 50
GIB = 1 << 30
REQUEST_TIMEOUT_MS = 400

Fault = Callable[[Rule], Rule]

FAULTS: dict[str, tuple[Fault, str]] = {
    "cut short": (lambda rule: rule.truncate(9), "closed the connection"),
    "cut within its size": (lambda rule: rule.truncate(2), "closed the connection"),
    "cut short and silent": (
        lambda rule: rule.truncate(9, close=False),
        "request_timeout_ms = 400",
    ),
    "of another request": (lambda rule: rule.wrong_correlation_id(), "correlation id"),
    "of an old request": (lambda rule: rule.wrong_correlation_id(-1), "correlation id"),
    "2 GB long": (lambda rule: rule.announce(2 * GIB - 1), "2,147,483,647 bytes"),
    "of a negative size": (lambda rule: rule.announce(-5), "-5 bytes"),
    "empty": (lambda rule: rule.announce(0), "nobody asked for"),
    "lost with a reset": (lambda rule: rule.close_after_append(reset=True), "connection"),
    "lost with a half-close": (lambda rule: rule.half_close(append=True), "closed the connection"),
}


def values(count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def send_all(producer: KafkaProducer) -> None:
    """Send one by one, so that requests follow each other, and wait for all."""
    futures = []
    for value in values():
        futures.append(producer.send("t", value, partition=0))
        if len(futures) % 10 == 0:
            futures[-1].result(WAIT_S)
    for future in futures:
        future.result(WAIT_S)


@pytest.mark.parametrize("what", FAULTS)
def test_a_bad_answer_to_records_loses_and_doubles_nothing(
    peer: Peer, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """P-G.2.2, P-G.7.2, P-G.7.5, P-F.5.3: a response cut short, with a wrong correlation id,
    or 2 GB long. The log says what was wrong, and with which broker."""
    fault, words = FAULTS[what]
    for skipped in (0, 2):
        fault(peer.on(PRODUCE).after(skipped))
    with (
        caplog.at_level(logging.WARNING),
        quick_producer(peer, linger_ms=0, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer,
    ):
        send_all(producer)
        assert producer._engine.counters()["records_failed"] == 0
    assert peer.values("t", 0) == values()
    said = [record.getMessage() for record in caplog.records]
    assert any(words in text and peer.bootstrap_servers in text for text in said), said


@pytest.mark.parametrize("at", [8, 9, 12, 16, 20, 24, 30, 40])
def test_a_garbled_answer_to_records_loses_and_doubles_nothing(peer: Peer, at: int) -> None:
    """P-F.4.1: garbled. Whether it is noticed, or taken for an error, it is retried or
    told: it never crashes and never reorders."""
    peer.on(PRODUCE).garble(at).after(1)
    peer.on(PRODUCE).garble(at).after(3)
    with quick_producer(peer, linger_ms=0, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer:
        futures = []
        for value in values():
            futures.append(producer.send("t", value, partition=0))
            futures[-1].exception(WAIT_S)
        failed = {value for value, each in zip(values(), futures, strict=True) if each.failed()}
    found = peer.values("t", 0)
    assert found == values() or set(values()) - set(found) <= failed, (found, failed)
    assert [value for value in found if value not in failed] == [
        value for value in values() if value not in failed
    ]


def test_answers_in_small_parts_are_put_together(peer: Peer) -> None:
    """P-G.7.3, P-L.182: byte by byte, several in flight."""
    for api_key in (API_VERSIONS, METADATA, INIT_PRODUCER_ID, PRODUCE):
        peer.on(api_key).dribble(1).always()
    with quick_producer(peer, linger_ms=0) as producer:
        send_all(producer)
    assert peer.values("t", 0) == values()


def test_an_answer_that_comes_twice_is_believed_once(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    """P-G.2.2: the second one answers nothing."""
    peer.on(PRODUCE).duplicate_reply().after(1)
    peer.on(PRODUCE).unasked_frame().after(3)
    with caplog.at_level(logging.ERROR), quick_producer(peer, linger_ms=0) as producer:
        send_all(producer)
    assert peer.values("t", 0) == values()
    assert f"broker {peer.bootstrap_servers}" in caplog.text


def test_partitions_in_another_order_or_missing_are_found_or_sent_again(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    """P-F.4.1: a batch without an answer counts as lost; the others are done."""
    with caplog.at_level(logging.ERROR), quick_producer(peer, linger_ms=60_000) as producer:
        producer.warmup("t")
        for rule in (
            peer.on(PRODUCE).reverse(),
            peer.on(PRODUCE).for_partition("t", 1).leave_out(),
        ):
            rule.once()
            futures = [producer.send("t", b"%d" % each, partition=each) for each in range(3)]
            producer.flush(WAIT_S)
            assert [future.result(0).partition for future in futures] == [0, 1, 2]
    for partition in range(3):
        assert peer.values("t", partition) == [b"%d" % partition] * 2
    assert "left 1 partition(s) out of its Produce answer" in caplog.text


def test_answers_about_what_nobody_asked_are_passed_over(peer: Peer) -> None:
    """P-F.4.1: a partition or topic that was not in the request."""

    def add(message: dict[str, Any]) -> None:
        topic = message["responses"][0]
        strange = {**topic["partition_responses"][0], "index": 77, "error_code": 3}
        topic["partition_responses"].insert(0, strange)
        message["responses"].insert(0, {**topic, "topic_id": bytes(15) + b"\x99"})

    peer.on(PRODUCE).change(add).always()
    with quick_producer(peer, linger_ms=0) as producer:
        send_all(producer)
    assert peer.values("t", 0) == values()


@pytest.mark.parametrize("api_key", [API_VERSIONS, METADATA, INIT_PRODUCER_ID])
@pytest.mark.parametrize("what", ["cut short", "of another request", "2 GB long", "empty"])
def test_a_bad_answer_before_the_first_record_is_got_over(
    peer: Peer, api_key: int, what: str
) -> None:
    """P-G.2.5, P-G.5.3, P-H.2.5."""
    fault, _ = FAULTS[what]
    rule = fault(peer.on(api_key)).times(2)
    with quick_producer(peer, linger_ms=0) as producer:
        send_all(producer)
    assert rule.hits == 2
    assert peer.values("t", 0) == values()


@pytest.mark.parametrize("api_key", [API_VERSIONS, METADATA, INIT_PRODUCER_ID])
@pytest.mark.parametrize("at", [8, 10, 14, 20, 30])
def test_a_garbled_answer_before_the_first_record_is_got_over(
    peer: Peer, api_key: int, at: int
) -> None:
    """P-J.1.5, P-H.2.5. A producer id or a list of brokers that is nonsense, and can be
    parsed, is believed, as long as it lasts."""

    def garble(request: Request) -> bytes:
        frame = request.usual()
        return frame[:at] + bytes(255 - byte for byte in frame[at:])

    rule = peer.on(api_key).reply(garble).times(2)
    with quick_producer(
        peer, linger_ms=0, request_timeout_ms=REQUEST_TIMEOUT_MS, metadata_max_age_ms=200
    ) as producer:
        if api_key == INIT_PRODUCER_ID:
            producer.send("t", b"first", partition=0).exception(WAIT_S)
            return
        send_all(producer)
    assert rule.hits == 2
    assert peer.values("t", 0) == values()


@pytest.mark.parametrize("number", [-1, 1 << 20, 2**31 - 1])
def test_a_partition_number_that_cannot_be_does_not_become_memory(peer: Peer, number: int) -> None:
    """P-J.1.5: the answer is refused, and the next one is asked for."""

    def change(message: dict[str, Any]) -> None:
        # The first question may come before the record, and asks about no topic.
        for topic in message["topics"]:
            topic["partitions"][0]["partition_index"] = number

    rule = peer.on(METADATA).change(change).for_topic("t").always()
    with quick_producer(peer, max_block_ms=300) as producer:
        assert producer.try_send("t", b"x").failed(), "that asks for the topic"
        wait_for_failure(producer)
        error = producer.send("t", b"x").exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert f"broker {peer.bootstrap_servers}" in str(error)
        assert " that does not parse" in str(error)
        assert str(number) in str(error)
        rule.cancel()
        producer.warmup("t", timeout=WAIT_S)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_a_broker_that_answers_nothing_but_nonsense_is_named_when_records_expire(
    peer: Peer,
) -> None:
    """P-D.8.2."""
    with quick_producer(
        peer, delivery_timeout_ms=2_000, request_timeout_ms=1_500, linger_ms=0
    ) as producer:
        producer.warmup("t")
        rule = peer.on(PRODUCE).wrong_correlation_id().always()
        error = producer.send("t", b"x", partition=0).exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert error.attempts > 1
        assert f"broker {peer.bootstrap_servers}" in str(error)
        assert " answered with correlation id" in str(error)
        rule.cancel()
        assert producer.send("t", b"y", partition=0).result(WAIT_S).offset >= 0
    assert peer.values("t", 0) == [b"x", b"y"]
