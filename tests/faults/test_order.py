"""The order of a partition's records when one request at a time is asked for (contract P-F.3.5).

P-L.85, P-L.86 and P-L.118 (SenderTest), through the public API.
"""

from __future__ import annotations

import random
import threading
import time

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod.errors import DeliveryTimeoutError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 30.0
NOT_ENOUGH_REPLICAS = 19
TIMEOUT_MS = 5_000


def new_producer(peer: Peer, **config: object) -> KafkaProducer:
    settings = {
        "linger_ms": 0,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 20,
        "reconnect_backoff_ms": 10,
        "batch_size": 1,
        "max_in_flight_requests_per_connection": 1,
        **config,
    }
    return KafkaProducer(bootstrap_servers=peer.bootstrap_servers, **settings)


def test_with_one_request_in_flight_order_needs_no_idempotence(new_peer: PeerFactory) -> None:
    """P-F.3.5: errors before the append and lost requests; nothing that could double a record."""
    peer = new_peer({"t": 1})
    source = random.Random(3)
    for _ in range(20):
        rule = peer.on(PRODUCE).after(source.randrange(4))
        if source.random() < 0.5:
            rule.error(NOT_ENOUGH_REPLICAS)
        else:
            rule.close()
    with new_producer(peer, enable_idempotence=False) as producer:
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(100)]
        assert [future.result(BOUND_S).offset for future in futures] == list(range(100))
    assert peer.values("t", 0) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_no_second_batch_leaves_while_the_first_is_under_way(
    peer: Peer, is_idempotent: bool
) -> None:
    """P-L.85 testSendInOrder."""
    peer.on(PRODUCE).hold().times(3)
    with new_producer(peer, enable_idempotence=is_idempotent) as producer:
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(3)]
        for number in range(3):
            peer.wait_until_held()
            assert len(peer.requests(PRODUCE)) == number + 1
            peer.release()
        assert [future.result(BOUND_S).offset for future in futures] == [0, 1, 2]


def test_after_an_expiry_the_next_batch_waits_for_the_answer(peer: Peer) -> None:
    """P-L.118 testWhenFirstBatchExpireNoSendSecondBatchIfGuaranteeOrder: the first is given up
    while its request is under way."""
    peer.on(INIT_PRODUCER_ID).delay(2.5)  # its request outlives it by so much
    peer.on(PRODUCE).hold()
    with new_producer(
        peer, warmup_topics=["t"], delivery_timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS
    ) as producer:
        first = producer.send("t", b"1", partition=0)
        assert isinstance(first.exception(BOUND_S), DeliveryTimeoutError)
        second = producer.send("t", b"2", partition=0)
        producer.send("t", b"other", partition=1)
        assert len(peer.requests(PRODUCE)) == 1
        peer.release()
        assert second.result(BOUND_S).offset == 1
    assert peer.values("t", 0) == [b"1", b"2"]


def test_callbacks_of_expired_records_may_send_again(peer: Peer) -> None:
    """P-L.86 testAppendInExpiryCallback: each into a new batch, and all arrive.

    Nothing is sent before the first ten have expired. A slow machine may let later ones expire,
    too, and even with their request under way: so each has a value of its own.
    """
    gate = peer.on(INIT_PRODUCER_ID).hold().always()
    again: list[RecordFuture] = []
    have_expired = threading.Event()
    with new_producer(
        peer,
        warmup_topics=["t"],
        batch_size=16_384,
        delivery_timeout_ms=2_000,
        request_timeout_ms=1_000,
    ) as producer:

        def send_again(metadata: object, error: object) -> None:
            if isinstance(error, DeliveryTimeoutError):
                value = b"again %d" % len(again)
                again.append(producer.send("t", value, partition=0, on_delivery=send_again))
                if len(again) == 10:
                    have_expired.set()

        firsts = [
            producer.send("t", b"%d" % number, partition=0, on_delivery=send_again)
            for number in range(10)
        ]
        assert have_expired.wait(BOUND_S)
        assert peer.requests(PRODUCE) == []
        gate.cancel()
        peer.release()
        deadline_s = time.monotonic() + BOUND_S
        while sum(future.succeeded() for future in again) < 10:
            assert time.monotonic() < deadline_s
            producer.flush(BOUND_S)
        assert not any(future.succeeded() for future in firsts)
    log = peer.values("t", 0)
    assert all((value or b"").startswith(b"again ") for value in log)
    arrived = {future.result(0).offset: b"again %d" % number
               for number, future in enumerate(again) if future.succeeded()}  # fmt: skip
    assert len(arrived) == 10, "each of the ten came to its end once"
    assert {offset: log[offset] for offset in arrived} == arrived
