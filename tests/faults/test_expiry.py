"""Batches that run out of time while their request is under way (contract P-D.8).

P-L.53, P-L.116 and P-L.119, through the public API.
"""

from __future__ import annotations

import itertools
import random

import pytest

from fastprod import KafkaProducer
from fastprod.errors import BufferExhaustedError, DeliveryTimeoutError, UndeliveredError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from support.peer.connection import Connection
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 20.0
# The request is sent so much later than its records were: that long it outlives them.
HEAD_START_S = 2.5
TIMEOUT_MS = 5_000
SMALL_BYTES = 4_096
MARK_BYTES = 1_000


def fill_memory(producer: KafkaProducer, topic: str, value: bytes) -> int:
    """Send until there is no room for one more; returns how many there was room for."""
    for count in itertools.count():
        future = producer.try_send(topic, value)
        if future.done() and isinstance(future.exception(0), BufferExhaustedError):
            return count
    raise AssertionError


def wait_until_memory_is_back(producer: KafkaProducer, peer: Peer) -> None:
    """All of it: were a slab given back twice, the process would have ended."""

    def is_back() -> bool:
        found = producer._engine.counters()
        is_whole = found["buffer_available_bytes"] == found["buffer_total_bytes"]
        return bool(is_whole and found["heap_bytes"] == 0)

    peer.wait_until(is_back, BOUND_S, "the pool whole again")


def half_read(peer: Peer) -> Connection:
    """The connection on which the peer stopped reading inside a frame."""
    (found,) = [each for each in peer.connections if each.partial_frame]
    assert len(found.partial_frame) == MARK_BYTES
    return found


def blocked_producer(peer: Peer, compression_type: str) -> KafkaProducer:
    """Its socket holds little, so that a large frame stands half-written.

    Its topics come in the first answer: later ones come behind that of the producer id.
    """
    producer = KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers,
        delivery_timeout_ms=TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS,
        linger_ms=0,
        batch_size=300_000,
        buffer_memory=1 << 20,
        send_buffer_bytes=SMALL_BYTES,
        compression_type=compression_type,
        warmup_topics=["old", "new"],
    )
    for topic in ("old", "new"):
        producer.partitions_for(topic)
    return producer


@pytest.mark.parametrize("compression_type", ["none", "lz4"])
def test_a_frame_half_written_keeps_its_bytes_although_its_records_are_given_up(
    new_peer: PeerFactory, compression_type: str
) -> None:
    """P-D.8.4, P-D.8.5 (CVE-2026-35554): others use all memory meanwhile; on the wire are the old
    bytes under the old topic; the memory comes back once."""
    peer = new_peer({"old": 1, "new": 1}, receive_buffer_bytes=SMALL_BYTES)
    peer.on(INIT_PRODUCER_ID).delay(HEAD_START_S)
    peer.on(PRODUCE).stop_reading(MARK_BYTES)
    source = random.Random(1)
    values = [source.randbytes(50_000) for _ in range(5)]
    with blocked_producer(peer, compression_type) as producer:
        old = [producer.send("old", value) for value in values]
        errors = [future.exception(BOUND_S) for future in old]
        assert all(isinstance(error, DeliveryTimeoutError) for error in errors)
        connection = half_read(peer)
        assert connection.is_open
        assert peer.requests(PRODUCE) == []

        filled = fill_memory(producer, "new", b"\xee" * 40_000)
        assert filled > 0
        assert peer.requests(PRODUCE) == []
        peer.resume_reading()

        (request,) = peer.wait_for(PRODUCE, 1, BOUND_S)[:1]
        (batch,) = request.batches
        assert (batch.topic, batch.problem) == ("old", None)
        assert batch.values == values
        producer.flush(BOUND_S)
        assert set(peer.values("new", 0)) == {b"\xee" * 40_000}
        assert len(peer.values("new", 0)) == filled
        assert peer.values("old", 0) == values
        assert [str(future.exception(0)) for future in old] == [str(error) for error in errors]
        wait_until_memory_is_back(producer, peer)


def test_a_frame_half_written_is_cut_off_when_the_producer_is_closed(
    new_peer: PeerFactory,
) -> None:
    """P-D.8.4, P-D.10.1: nothing of other records follows its first bytes."""
    peer = new_peer({"old": 1, "new": 1}, receive_buffer_bytes=SMALL_BYTES)
    peer.on(INIT_PRODUCER_ID).delay(HEAD_START_S)
    peer.on(PRODUCE).stop_reading(MARK_BYTES)
    values = [b"%d" % number * 50_000 for number in range(5)]
    producer = blocked_producer(peer, "none")
    old = [producer.send("old", value) for value in values]
    assert all(isinstance(each.exception(BOUND_S), DeliveryTimeoutError) for each in old)
    connection = half_read(peer)
    filled = fill_memory(producer, "new", b"\xee" * 40_000)
    with pytest.raises(UndeliveredError) as caught:
        producer.close(0)
    assert caught.value.undelivered_count == filled
    peer.resume_reading()
    peer.wait_until(lambda: not connection.is_open, BOUND_S, "the connection closed")
    assert b"\xee" * 100 not in connection.received
    assert peer.requests(PRODUCE) == []


def test_records_expire_in_flight_and_a_late_answer_changes_nothing(peer: Peer) -> None:
    """P-L.116 testInflightBatchesExpireOnDeliveryTimeout, P-L.119, P-D.8.1, P-D.8.3: the next
    record of the partition goes when it is known that this one arrived, with the next sequence."""
    peer.on(INIT_PRODUCER_ID).delay(HEAD_START_S)
    peer.on(PRODUCE).hold()
    calls = []
    with KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers,
        delivery_timeout_ms=TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS,
        linger_ms=0,
        warmup_topics=["t"],
    ) as producer:
        late = producer.send(
            "t", b"late", partition=0, on_delivery=lambda metadata, error: calls.append(error)
        )
        error = late.exception(BOUND_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert error.attempts == 1
        following = producer.send("t", b"following", partition=0)
        assert peer.held_count == 1
        peer.release()
        assert following.result(BOUND_S).offset == 1
        assert [str(each) for each in calls] == [str(error)]
        assert late.exception(0) is not None
        assert peer.values("t", 0) == [b"late", b"following"]
        assert [batch.header.base_sequence for batch in peer.batches()] == [0, 1]
        wait_until_memory_is_back(producer, peer)


def test_records_that_never_left_expire_without_a_trace(peer: Peer) -> None:
    """P-L.53 testExpiredBatchSingle, P-L.100, P-D.8.1: no producer id came; the next ones are
    clean.
    """
    peer.on(INIT_PRODUCER_ID).hold().always()
    with KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers,
        delivery_timeout_ms=2_000,
        request_timeout_ms=2_000,
        linger_ms=0,
        warmup_topics=["t"],
    ) as producer:
        futures = [producer.send("t", b"x", partition=partition) for partition in range(3)]
        errors = [future.exception(BOUND_S) for future in futures]
        assert all(isinstance(each, DeliveryTimeoutError) for each in errors)
        assert [each.attempts for each in errors] == [0, 0, 0]  # type: ignore[union-attr]
        assert peer.requests(PRODUCE) == []
        peer.clear_script()
        peer.release()
        producer.warmup("t")
        assert producer.send("t", b"y", partition=0).result(BOUND_S).offset == 0
        (batch,) = peer.batches()
        assert (batch.header.producer_epoch, batch.header.base_sequence) == (0, 0)
        wait_until_memory_is_back(producer, peer)
