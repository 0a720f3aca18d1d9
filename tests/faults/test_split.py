"""Batches that the broker finds too large (contract P-D.9), through the public API.

P-L.57, P-L.58, P-L.59, P-L.115 and P-L.119.
"""

from __future__ import annotations

import random
import threading

import pytest

from fastprod import KafkaProducer, RecordMetadata
from fastprod.errors import RecordTooLargeError
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 30.0
LONG_MS = 60_000


def is_memory_back(producer: KafkaProducer) -> bool:
    """A batch is done a moment before its memory is given back."""
    found = producer._engine.counters()
    is_whole = found["buffer_available_bytes"] == found["buffer_total_bytes"]
    return bool(is_whole and found["heap_bytes"] == 0)


def new_producer(peer: Peer, **config: object) -> KafkaProducer:
    settings = {"linger_ms": LONG_MS, "retry_backoff_ms": 10, **config}
    return KafkaProducer(bootstrap_servers=peer.bootstrap_servers, **settings)


@pytest.mark.parametrize("limit_bytes", [200, 1_000, 10_000])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_batch_is_cut_until_it_fits(
    new_peer: PeerFactory, limit_bytes: int, is_idempotent: bool
) -> None:
    """P-L.57 testSplitAndReenqueue, P-L.115 testIdempotentSplitBatchAndSend, P-D.9.7: however small
    the broker's limit is, everything arrives, in order, with keys, headers and timestamps."""
    peer = new_peer({"t": 1}, max_message_bytes=limit_bytes)
    settings: dict[str, object] = {"enable_idempotence": is_idempotent}
    if not is_idempotent:
        settings["max_in_flight_requests_per_connection"] = 1  # or a child passes another (P-F.3.6)
    with new_producer(peer, **settings) as producer:
        futures = [
            producer.send(
                "t",
                b"%03d" % number + b"x" * 60,
                b"key",
                [("h", b"%d" % number)],
                partition=0,
                timestamp_ms=1_000 + number,
            )
            for number in range(400)
        ]
        producer.flush(BOUND_S)
        assert [future.result(0).offset for future in futures] == list(range(400))
        assert producer._engine.counters()["batches_split"] > 0
        peer.wait_until(lambda: is_memory_back(producer), BOUND_S, "the memory of all batches")
    log = peer.log("t", 0)
    assert [record.value for record in log] == [
        b"%03d" % number + b"x" * 60 for number in range(400)
    ]
    assert [record.timestamp for record in log] == [1_000 + number for number in range(400)]
    assert [record.headers for record in log] == [(("h", b"%d" % number),) for number in range(400)]
    assert {record.key for record in log} == {b"key"}


def test_a_record_too_large_by_itself_fails_alone(new_peer: PeerFactory) -> None:
    """P-L.119, P-D.9.1: the others of its batch arrive."""
    peer = new_peer({"t": 1}, max_message_bytes=500)
    with new_producer(peer) as producer:
        values = [b"%d" % number * (600 if number == 4 else 50) for number in range(10)]
        futures = [producer.send("t", value, partition=0) for value in values]
        producer.flush(BOUND_S)
        for number, future in enumerate(futures):
            if number == 4:
                assert isinstance(future.exception(0), RecordTooLargeError)
            else:
                assert future.succeeded()
    assert peer.values("t", 0) == [value for value in values if len(value) < 100]


def test_flush_waits_for_the_last_child(new_peer: PeerFactory) -> None:
    """P-D.9.6, P-A.7.5: of a batch that was split while flush was waiting."""
    peer = new_peer({"t": 1}, max_message_bytes=300)
    rule = peer.on(PRODUCE).hold()
    with new_producer(peer) as producer:
        futures = [producer.send("t", b"%d" % number * 20, partition=0) for number in range(40)]
        flusher = threading.Thread(target=producer.flush, args=(BOUND_S,))
        flusher.start()
        peer.wait_until_held()
        last = (
            peer.on(PRODUCE)
            .when(lambda request: b"39" * 20 in request.payload and len(request.payload) < 500)
            .hold()
        )
        peer.release()
        peer.wait_until_held()
        assert flusher.is_alive()
        assert not futures[-1].done()
        assert futures[0].done()
        peer.release()
        flusher.join(BOUND_S)
        assert not flusher.is_alive()
        assert all(future.succeeded() for future in futures)
        assert (rule.hits, last.hits) == (1, 1)


def test_callbacks_of_a_split_batch_are_called_once_in_order(new_peer: PeerFactory) -> None:
    """P-D.9.5, P-D.10.4."""
    peer = new_peer({"t": 1}, max_message_bytes=250)
    calls: list[int] = []

    def note(metadata: RecordMetadata, error: Exception | None) -> None:
        assert error is None
        calls.append(metadata.offset)

    with new_producer(peer) as producer:
        for number in range(100):
            producer.send("t", b"%d" % number * 20, partition=0, on_delivery=note)
        producer.flush(BOUND_S)
    assert calls == list(range(100))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_cut_too(new_peer: PeerFactory, codec: str) -> None:
    """P-D.9.2: the children are compressed anew."""
    peer = new_peer({"t": 1}, max_message_bytes=2_000)
    source = random.Random(codec)
    values = [source.randbytes(100) + b"%d" % number for number in range(300)]
    with new_producer(peer, compression_type=codec) as producer:
        futures = [producer.send("t", value, partition=0) for value in values]
        producer.flush(BOUND_S)
        assert [future.result(0).offset for future in futures] == list(range(300))
        assert producer._engine.counters()["batches_split"] > 0
    assert peer.values("t", 0) == values


def test_what_was_sent_behind_a_split_batch_stays_behind_it(new_peer: PeerFactory) -> None:
    """P-D.9.3, P-F.5.8: several large batches under way at once; a broker that knows the
    producer.
    """
    peer = new_peer({"t": 1}, max_message_bytes=400)
    with new_producer(peer, linger_ms=0, batch_size=1_000) as producer:
        producer.send("t", b"first", partition=0).result(BOUND_S)
        futures = [producer.send("t", b"%03d" % number * 30, partition=0) for number in range(300)]
        producer.flush(BOUND_S)
        assert [future.result(0).offset for future in futures] == list(range(1, 301))
    assert peer.values("t", 0)[1:] == [b"%03d" % number * 30 for number in range(300)]


def test_a_split_and_lost_connections_go_together(new_peer: PeerFactory) -> None:
    """P-D.9.3, P-F.5.3: children are found again by their sequences."""
    peer = new_peer({"t": 1}, max_message_bytes=400)
    for number in range(12):
        rule = peer.on(PRODUCE).after(number % 4)
        if number % 2:
            rule.close_after_append()
        else:
            rule.close()
    with new_producer(peer, reconnect_backoff_ms=10) as producer:
        futures = [producer.send("t", b"%03d" % number * 30, partition=0) for number in range(60)]
        producer.flush(BOUND_S)
        assert [future.result(0).offset for future in futures] == list(range(60))
    assert peer.values("t", 0) == [b"%03d" % number * 30 for number in range(60)]
