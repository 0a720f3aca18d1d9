"""The answer that is due: it belongs to another request, never comes, or asks for a pause."""

from __future__ import annotations

import time

from fastprod.protocol.api_keys import PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

THROTTLE_MS = 400
SLACK_S = 0.01


def test_an_answer_to_another_request_costs_the_connection(peer: Peer) -> None:
    """P-G.2.2: nothing of it is believed; the records are sent again and are there once."""
    peer.on(PRODUCE).wrong_correlation_id().once()
    with quick_producer(peer) as producer:
        future = producer.send("t", b"v", partition=0)
        assert future.result(WAIT_S).offset in (-1, 0)
        assert len({request.connection for request in peer.requests(PRODUCE)}) == 2
    assert peer.values("t", 0) == [b"v"]


def test_a_request_without_an_answer_times_out(peer: Peer) -> None:
    """P-G.2.4, P-F.4.1: its connection is closed, and it is sent again by another."""
    peer.on(PRODUCE).silence().once()
    with quick_producer(peer, request_timeout_ms=200, delivery_timeout_ms=60_000) as producer:
        producer.warmup("t")
        began_s = time.monotonic()
        assert producer.send("t", b"v", partition=0).result(WAIT_S).offset == 0
        assert time.monotonic() - began_s >= 0.2 - SLACK_S
    first, second, *_ = peer.requests(PRODUCE)
    assert first.connection != second.connection


def test_a_throttled_broker_is_left_alone_for_so_long(peer: Peer) -> None:
    """P-G.8 (KIP-219): what it asks for in an answer is kept from then on."""
    with quick_producer(peer) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).throttle(THROTTLE_MS).once()
        producer.send("t", b"1", partition=0).result(WAIT_S)
        producer.send("t", b"2", partition=0).result(WAIT_S)
    first, second = peer.requests(PRODUCE)
    assert second.received_s - first.received_s >= THROTTLE_MS / 1000 - SLACK_S
