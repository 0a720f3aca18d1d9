"""Ctrl-C gets through every wait within about 50 ms, and leaves a producer that works.

The delays are printed; only a generous bound is asserted.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import leak_guard
from black_hole import black_hole, frozen
from fastprod import KafkaProducer
from fastprod.api_versions import PRODUCE
from fastprod.errors import ProducerClosedError
from mock_cluster import MockCluster
from peer_fixtures import PeerClusterFactory
from quick_producer import quick_producer

BOUND_S = 2.0
AFTER_S = 0.3
BUFFER_BYTES = 1_000_000


def interrupted(where: str, wait: Callable[[], object]) -> None:
    """`wait` gets a SIGINT after AFTER_S, raises KeyboardInterrupt, and soon."""
    sent_s = []

    def interrupt() -> None:
        sent_s.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(AFTER_S, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
        delay_s = time.monotonic() - sent_s[0]
    finally:
        timer.cancel()
        timer.join()
    print(f"Ctrl-C during {where}: {delay_s * 1000:.1f} ms")
    assert delay_s < BOUND_S


@pytest.fixture
def producer(mock_cluster: MockCluster) -> Iterator[KafkaProducer]:
    """A producer with little memory that has sent a record."""
    with KafkaProducer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        buffer_memory=BUFFER_BYTES,
        batch_size=16_384,
    ) as made:
        made.send("t", b"first").result(20)
        yield made


def fill(producer: KafkaProducer) -> None:
    """Send until memory is out, and then wait for it."""
    while True:
        producer.send("t", bytes(10_000))


def assert_works(producer: KafkaProducer) -> None:
    """Everything can be delivered, memory is all there, and nobody waits for it."""
    assert producer.send("t", b"after").result(20).offset >= 0
    producer.flush(20)
    assert producer._engine.incomplete_batches == 0
    assert producer._engine.counters()["waiting_threads"] == 0
    # The I/O thread gives memory back right after it has told who waits.
    deadline_s = time.monotonic() + BOUND_S
    while True:
        counters = producer._engine.counters()
        if counters["buffer_available_bytes"] == counters["buffer_total_bytes"]:
            return
        assert time.monotonic() < deadline_s, counters


@pytest.mark.parametrize("what", ["send", "try_other_partition", "partitions_for", "warmup"])
def test_while_waiting_for_metadata(what: str) -> None:
    waits: dict[str, Callable[[KafkaProducer], object]] = {
        "send": lambda producer: producer.send("t", b"x"),
        "try_other_partition": lambda producer: producer.send("t", b"x", partition=7),
        "partitions_for": lambda producer: producer.partitions_for("t"),
        "warmup": lambda producer: producer.warmup("t"),
    }
    with black_hole() as nowhere, KafkaProducer(bootstrap_servers=nowhere) as producer:
        interrupted(f"metadata ({what})", lambda: waits[what](producer))
        assert not producer.closed
        assert producer._engine.incomplete_batches == 0


def test_while_waiting_for_memory(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    """D.3.5: who is interrupted leaves the line, and gives back what he had gathered."""
    with frozen(mock_cluster.pid):
        interrupted("memory (send)", lambda: fill(producer))
        interrupted("memory (send_many)", lambda: producer.send_many("t", [bytes(10_000)] * 200))
        assert producer._engine.counters()["waiting_threads"] == 0
    assert_works(producer)


def test_while_waiting_for_results(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    with frozen(mock_cluster.pid):
        future = producer.send("t", b"x")
        bulk = producer.send_many("t", [b"x"] * 100)
        interrupted("result()", future.result)
        interrupted("exception()", future.exception)
        interrupted("result() of a bulk", bulk.result)
    assert future.result(20).offset >= 0
    assert bulk.result(20).record_count == 100
    assert_works(producer)


def test_while_flushing(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    """A.7.3"""
    with frozen(mock_cluster.pid):
        future = producer.send("t", b"x")
        interrupted("flush()", producer.flush)
        assert not future.done()
    assert_works(producer)


def test_an_interrupted_flush_leaves_no_hurry_behind(new_peer_cluster: PeerClusterFactory) -> None:
    """A.7.3, D.10.5, L 50 testAwaitFlushComplete: linger counts again, as the other node's record
    shows."""
    cluster = new_peer_cluster(nodes=2, topics={"t": 2})
    with quick_producer(cluster, linger_ms=60_000, batch_size=1_000) as producer:
        cluster.on(PRODUCE).hold().once()
        first = producer.send("t", b"first", partition=0)
        interrupted("flush()", producer.flush)
        assert not first.done()
        cluster.release()
        lingering = producer.send("t", b"lingers", partition=1)
        full, _ = (producer.send("t", bytes(900), partition=0) for _ in range(2))
        assert full.result(20).offset == 1
        assert not lingering.done()
        assert cluster.values("t", 1) == []
        assert producer._engine.incomplete_batches == 2


def test_while_closing(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    """A.9.7, L 10 shouldCloseProperlyAndThrowIfInterrupted: it ends at once, then lets the
    interrupt through."""
    with frozen(mock_cluster.pid):
        future = producer.send("t", b"x")
        interrupted("close()", producer.close)
    assert producer.closed
    assert isinstance(future.exception(0), Exception)
    assert not any("fastprod-io" in name for name in leak_guard.threads().values())
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"x")


def test_a_handler_that_returns_is_run_and_the_wait_goes_on(
    producer: KafkaProducer, mock_cluster: MockCluster
) -> None:
    ran = []

    def thaw(number: int, frame: object) -> None:
        ran.append(number)
        os.kill(mock_cluster.pid, signal.SIGCONT)

    before = signal.signal(signal.SIGUSR1, thaw)
    timer = threading.Timer(AFTER_S, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        with frozen(mock_cluster.pid):
            future = producer.send("t", b"x")
            timer.start()
            assert future.result(20).offset >= 0
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert ran == [signal.SIGUSR1]
    assert_works(producer)
