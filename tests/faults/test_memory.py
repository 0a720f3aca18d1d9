"""The buffer is full: who waits, for how long, what the error says, and that it ends (P-D.2,
P-D.3).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod.errors import BufferExhaustedError, RecordTooLargeError
from fastprod.protocol.api_keys import PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

BUFFER_BYTES = 200_000
RECORD_BYTES = 10_000
SLACK_S = 0.01


@contextmanager
def full_producer(
    peer: Peer, **settings: Any
) -> Iterator[tuple[KafkaProducer, list[RecordFuture]]]:
    """A producer whose buffer is full of records that the peer does not answer until `let_go`."""
    peer.on(PRODUCE).hold().always()
    with quick_producer(
        peer, buffer_memory=BUFFER_BYTES, batch_size=16_384, linger_ms=0, **settings
    ) as producer:
        try:
            producer.warmup("t", timeout=WAIT_S)
            futures: list[RecordFuture] = []
            while True:
                future = producer.try_send("t", bytes(RECORD_BYTES), partition=0)
                if future.done() and future.failed():
                    break
                futures.append(future)
            assert len(futures) >= 4
            yield producer, futures
        finally:
            let_go(peer)


def let_go(peer: Peer) -> None:
    peer.clear_script()
    peer.release()


def test_a_full_buffer_fails_a_record_in_time_with_the_numbers(peer: Peer) -> None:
    """P-A.3.9, P-A.3.12 (first row), P-D.3.4, P-L.67: full buffer."""
    with full_producer(peer, max_block_ms=300) as (producer, futures):
        seen: list[tuple[int, object]] = []
        began_s = time.monotonic()
        error = producer.send(
            "t",
            bytes(RECORD_BYTES),
            partition=0,
            on_delivery=lambda metadata, error: seen.append((metadata.partition, error)),
        ).exception(0)
        assert time.monotonic() - began_s >= 0.3 - SLACK_S
        assert isinstance(error, BufferExhaustedError)
        assert error.waited_ms == 300
        assert error.total_bytes == BUFFER_BYTES
        assert error.retriable
        for word in ("300 ms", "200,000 bytes of buffer_memory", "max_block_ms"):
            assert word in str(error)
        assert [(each[0], type(each[1])) for each in seen] == [(0, BufferExhaustedError)]
        let_go(peer)
        assert [future.result(WAIT_S).offset for future in futures] == list(range(len(futures)))
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == len(futures)
        counters = producer._engine.counters
        peer.wait_until(
            lambda: counters()["buffer_available_bytes"] == counters()["buffer_total_bytes"]
        )
        assert counters()["buffer_exhausted"] >= 1
        assert counters()["waiting_threads"] == 0


def test_try_send_fails_at_once_when_the_buffer_is_full(peer: Peer) -> None:
    """Try_send never waits; nor does send with no time to."""
    with full_producer(peer) as (producer, futures):
        error = producer.try_send("t", bytes(RECORD_BYTES), partition=0).exception(0)
        assert isinstance(error, BufferExhaustedError)
        assert error.waited_ms == 0
        let_go(peer)
        producer.flush(WAIT_S)
        future = producer.try_send("t", bytes(RECORD_BYTES), partition=0)
        assert future.result(WAIT_S).offset == len(futures)


def test_who_waits_gets_memory_as_soon_as_there_is_some(peer: Peer) -> None:
    """P-D.3.3, P-L.66 testDelayedAllocation: in line, each once."""
    with full_producer(peer) as (producer, futures):
        waiting: list[RecordFuture] = []

        def send() -> None:
            waiting.append(producer.send("t", bytes(RECORD_BYTES), partition=1))

        threads = [threading.Thread(target=send) for _ in range(6)]
        for thread in threads:
            thread.start()
        peer.wait_until(lambda: producer._engine.counters()["waiting_threads"] == 6)
        assert waiting == []
        let_go(peer)
        for thread in threads:
            thread.join(WAIT_S)
        assert sorted(each.result(WAIT_S).offset for each in waiting) == list(range(6))
        for future in futures:
            future.result(WAIT_S)


def test_a_record_larger_than_the_buffer_is_refused_without_waiting(peer: Peer) -> None:
    """P-A.3.7, P-D.3.2, P-L.65: too large a record. The limit is named, and the size."""
    with quick_producer(peer, buffer_memory=100_000, max_request_size=50_000) as producer:
        producer.warmup("t")
        big = producer.send("t", bytes(60_000), partition=0).exception(0)
        assert isinstance(big, RecordTooLargeError)
        assert (big.limit_name, big.limit_bytes) == ("max_request_size", 50_000)
        assert big.size_bytes is not None
        assert 60_000 < big.size_bytes < 60_200
        for word in ("'t'", f"{big.size_bytes:,} bytes", "max_request_size = 50,000"):
            assert word in str(big)
        assert producer.send("t", bytes(40_000), partition=0).result(WAIT_S).offset == 0
    with quick_producer(peer, buffer_memory=100_000, max_request_size=500_000) as producer:
        producer.warmup("t")
        bigger = producer.send("t", bytes(200_000), partition=0).exception(0)
        assert isinstance(bigger, RecordTooLargeError)
        assert (bigger.limit_name, bigger.limit_bytes) == ("buffer_memory", 100_000)
        assert producer.send("t", bytes(80_000), partition=0).result(WAIT_S).offset == 1


@pytest.mark.parametrize("linger_ms", [0, 60_000, None])
def test_a_buffer_much_smaller_than_a_batch_still_moves(peer: Peer, linger_ms: int | None) -> None:
    """P-B.4, P-D.3.8: no batch is ever full; who waits for memory makes them go."""
    with quick_producer(peer, buffer_memory=50_000, linger_ms=linger_ms) as producer:
        futures = [producer.send("t", bytes(9_000), partition=n % 3) for n in range(60)]
        producer.flush(WAIT_S)
        assert sorted({future.result(0).partition for future in futures}) == [0, 1, 2]
