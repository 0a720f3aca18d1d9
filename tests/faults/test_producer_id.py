"""InitProducerId goes wrong: the log and the records that fail name the broker, and say what."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    ClusterAuthorizationError,
    DeliveryTimeoutError,
    KafkaError,
)
from fastprod.protocol.api_keys import INIT_PRODUCER_ID
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.script import Rule

Fault = Callable[[Rule], Rule]
SHORT = {"linger_ms": 0, "request_timeout_ms": 400, "delivery_timeout_ms": 1_000}
DENIED = 31
BAD_REQUEST = 42
UNKNOWN_SERVER_ERROR = -1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda rule: rule.close(), "ended before it answered InitProducerId"),
        (lambda rule: rule.truncate(9), "ended before it answered InitProducerId"),
        (lambda rule: rule.silence(), "ended before it answered InitProducerId"),
        (lambda rule: rule.answer(producer_id=-5), "InitProducerId that does not parse"),
        (lambda rule: rule.error(14), "refused InitProducerId: COORDINATOR_LOAD_IN_PROGRESS (14)"),
    ],
    ids=["closed", "cut", "silent", "garbled", "refused for now"],
)
def test_records_that_expire_without_a_producer_id_name_the_broker(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture, fault: Fault, words: str
) -> None:
    """P-F.5.1, P-D.8.2."""
    peer = new_peer({"t": 1})
    rule = fault(peer.on(INIT_PRODUCER_ID)).always()
    with caplog.at_level(logging.WARNING), quick_producer(peer, **SHORT) as producer:
        rule.wait_for_hits(2)  # what came of the first one is known
        error = producer.send("t", b"x").exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        peer.clear_script()
        # A request that is still under way may take a record's whole time with it.
        later = (producer.send("t", b"y").exception(WAIT_S) for _ in range(20))
        assert None in later
    logged = "\n".join(record.getMessage() for record in caplog.records)
    for word in (words, peer.bootstrap_servers):
        assert word in str(error)
        assert word in logged


@pytest.mark.parametrize("code", [DENIED, BAD_REQUEST, UNKNOWN_SERVER_ERROR])
def test_records_that_fail_because_the_broker_refuses_name_it(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """P-F.5.1: for this once, or for good."""
    peer = new_peer({"t": 1})
    peer.on(INIT_PRODUCER_ID).error(code).hold()
    with (
        caplog.at_level(logging.WARNING),
        quick_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer,
    ):
        future = producer.send("t", b"x")
        peer.wait_until_held()
        peer.release()
        error = future.exception(WAIT_S)
        assert isinstance(error, KafkaError)
        assert error.code == code
        if code == DENIED:
            assert isinstance(error, ClusterAuthorizationError)
            assert producer.send("t", b"y").result(WAIT_S).offset == 0
        else:
            with pytest.raises(KafkaError, match=peer.bootstrap_servers):
                producer.send("t", b"y")
    logged = "\n".join(record.getMessage() for record in caplog.records)
    for word in (peer.bootstrap_servers, "refused InitProducerId"):
        assert word in str(error)
        assert word in logged


def failure(producer: KafkaProducer) -> BaseException | None:
    """Of the next record, or of the producer itself if it has been noticed already."""
    try:
        return producer.send("t", b"x").exception(WAIT_S)
    except KafkaError as error:
        return error


def test_a_broker_that_gives_no_producer_ids_is_named(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """P-G.2.7, P-F.5.1."""
    peer = new_peer({"t": 1}, versions={INIT_PRODUCER_ID: None})
    with caplog.at_level(logging.WARNING), quick_producer(peer, linger_ms=0) as producer:
        said = [str(failure(producer)) for _ in range(3)]
    logged = "\n".join(record.getMessage() for record in caplog.records)
    for text in (*said, logged):
        for word in (peer.bootstrap_servers, "does not offer InitProducerId"):
            assert word in text
