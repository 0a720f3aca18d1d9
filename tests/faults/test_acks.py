"""acks=0, 1 and all when brokers answer, refuse, or go away (contract P-F.3.1, P-F.3.2, P-F.4)."""

from __future__ import annotations

import pytest

from fastprod.errors import NetworkError, NotEnoughReplicasError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20


@pytest.mark.parametrize(
    ("acks", "on_the_wire", "is_idempotent"), [("all", -1, True), (1, 1, False), (0, 0, False)]
)
def test_requests_carry_acks_and_the_time_out(
    peer: Peer, acks: int | str, on_the_wire: int, is_idempotent: bool
) -> None:
    """P-F.3.1, P-B.2, P-F.5.13: a producer id and sequences with acks=all alone."""
    with quick_producer(peer, acks=acks, request_timeout_ms=12_345) as producer:
        metadata = producer.send("t", b"x", partition=0, timestamp_ms=7).result(WAIT_S)
        producer.flush(WAIT_S)
        peer.wait_for_log("t", 0, 1)
    (request,) = peer.requests(PRODUCE)
    assert request.message.acks == on_the_wire
    assert request.message.timeout == 12_345
    assert request.message.transactional_id is None
    assert metadata.offset == (-1 if acks == 0 else 0)
    assert metadata.timestamp == 7
    assert bool(peer.requests(INIT_PRODUCER_ID)) == is_idempotent
    assert (peer.batches()[0].header.producer_id >= 0) == is_idempotent


def test_without_acks_a_record_is_done_when_it_has_left(peer: Peer) -> None:
    """P-F.3.2: nobody answers, thousands of records later too; all in order."""
    with quick_producer(peer, acks=0, batch_size=1_000) as producer:
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(3_000)]
        assert {future.result(WAIT_S).offset for future in futures} == {-1}
        peer.wait_for_log("t", 0, len(futures))
        peer.wait_until(lambda: producer._engine.in_flight_count == 0)
    assert peer.values("t", 0) == [b"%d" % number for number in range(3_000)]


def test_without_acks_a_brokers_refusal_shows_as_a_lost_connection_alone(peer: Peer) -> None:
    """P-F.3.2: the records count as delivered, nothing is sent again, and the next ones arrive."""
    with quick_producer(peer, acks=0, linger_ms=0) as producer:
        producer.warmup("t")
        rule = peer.on(PRODUCE).error(NOT_ENOUGH_REPLICAS)
        assert producer.send("t", b"lost", partition=0).result(WAIT_S).offset == -1
        rule.wait_for_hits()
        peer.wait_until(lambda: len([each for each in peer.connections if each.closed_by]) >= 1)
        closed = len(peer.connections)
        while not peer.values("t", 0):
            producer.send("t", b"next", partition=0).result(WAIT_S)
        assert len(peer.connections) >= closed
    assert set(peer.values("t", 0)) == {b"next"}
    values = [value for batch in peer.batches() for value in batch.values]
    assert values.count(b"lost") == 1


def test_without_acks_what_is_queued_waits_for_the_connection(peer: Peer) -> None:
    """P-F.3.2, P-D.8.1: only what was being written may be lost."""
    peer.refuse_connections()
    with quick_producer(peer, acks=0) as producer:
        peer.accept_connections()
        producer.warmup("t", timeout=WAIT_S)
        peer.refuse_connections()
        peer.close_all()
        peer.wait_until(lambda: not peer.open_connections)
        peer.wait_until(lambda: producer._engine.counters()["connections"] == 0)
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(20)]
        peer.accept_connections()
        assert {future.result(WAIT_S).offset for future in futures} == {-1}
        peer.wait_for_log("t", 0, 20)
    assert peer.values("t", 0) == [b"%d" % number for number in range(20)]


def test_with_one_ack_a_lost_answer_may_double_a_record_and_loses_none(peer: Peer) -> None:
    """P-F.4.8, P-F.5.13: that is what acks=1 is."""
    peer.on(PRODUCE).close_after_append()
    with quick_producer(peer, acks=1) as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 1
    assert peer.values("t", 0) == [b"x", b"x"]


@pytest.mark.parametrize("is_appended", [False, True])
def test_with_all_acks_too_few_replicas_are_waited_for(peer: Peer, is_appended: bool) -> None:
    """P-F.4 (19, 20): written already or not, it is there once."""
    code = NOT_ENOUGH_REPLICAS_AFTER_APPEND if is_appended else NOT_ENOUGH_REPLICAS
    rule = peer.on(PRODUCE).error(code, append=is_appended).times(3)
    with quick_producer(peer) as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
    assert rule.hits == 3
    assert peer.values("t", 0) == [b"x"]


def test_when_retries_are_used_up_the_last_error_is_told(peer: Peer) -> None:
    """P-L.84, P-F.4.3, P-F.4.4: with topic and partition; the next record is none the worse."""
    with quick_producer(peer, acks=1, retries=2) as producer:
        rule = peer.on(PRODUCE).error(NOT_ENOUGH_REPLICAS, message="2 of 3 are away").times(3)
        error = producer.send("t", b"x", partition=2).exception(WAIT_S)
        assert isinstance(error, NotEnoughReplicasError)
        assert (error.topic, error.partition, error.retriable) == ("t", 2, True)
        assert "2 of 3 are away" in str(error)
        assert rule.hits == 3
        peer.on(PRODUCE).close().times(3)
        assert isinstance(producer.send("t", b"x", partition=2).exception(WAIT_S), NetworkError)
        assert producer.send("t", b"y", partition=2).result(WAIT_S).offset == 0
