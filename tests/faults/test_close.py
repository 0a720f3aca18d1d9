"""close(): what it delivers, what it throws away and counts, whom it releases, what it leaves."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import (
    BulkError,
    FlushTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    UndeliveredError,
)
from fastprod.protocol.api_keys import INIT_PRODUCER_ID
from mock_cluster import MockCluster
from support.broker.black_hole import black_hole, frozen
from support.engine.quick_producer import quick_producer
from support.peer.scripted_peer import Peer
from support.processes.leak_guard import Census

BOUND_S = 20.0


def new_producer(cluster: MockCluster, **config: object) -> KafkaProducer:
    """A producer that knows topic "t" and has its connections."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **config)
    producer.warmup("t")
    return producer


@contextmanager
def expected_in_threads(
    count: int, work: Callable[[], object], wanted: type[BaseException]
) -> Iterator[list[BaseException]]:
    """Run `work` in threads; when the block is left each has ended with `wanted`."""
    found: list[BaseException] = []
    begun = threading.Barrier(count + 1)

    def run() -> None:
        begun.wait(BOUND_S)
        try:
            work()
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    begun.wait(BOUND_S)
    yield found
    for thread in threads:
        thread.join(BOUND_S)
    assert [type(error) for error in found] == [wanted] * count, found


def wait_until(condition: Callable[[], bool]) -> None:
    """Until it holds, at most BOUND_S."""
    deadline_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_everything_queued_is_delivered_and_a_second_close_does_nothing(
    mock_cluster: MockCluster,
) -> None:
    """P-A.9.2, P-A.9.3, P-F.1.1: queued and in flight, whatever the linger."""
    producer = new_producer(mock_cluster, linger_ms=60_000)
    futures = [producer.send("t", b"x") for _ in range(1000)]
    bulk = producer.send_many("t", [b"x"] * 1000)
    producer.close()
    assert all(future.succeeded() for future in futures)
    assert bulk.result(0).record_count == 1000
    producer.close()
    producer.close(0)
    producer.flush(1)
    assert producer.metrics()


def test_a_timeout_of_for_ever_is_one(mock_cluster: MockCluster) -> None:
    """P-A.9.1: Java's Long.MAX_VALUE ms; the delivery thread is waited for, too."""
    producer = new_producer(mock_cluster)
    told: list[object] = []
    producer.send("t", b"x", on_delivery=lambda metadata, error: told.append(error))
    producer.close((2**63 - 1) / 1000)
    assert told == [None]


def test_nothing_can_be_sent_after_close(mock_cluster: MockCluster) -> None:
    """P-A.9.8"""
    producer = new_producer(mock_cluster)
    producer.close()
    uses: list[Callable[[], object]] = [
        lambda: producer.send("t", b"x"),
        lambda: producer.try_send("t", b"x"),
        lambda: producer.send("another", b"x"),
        lambda: producer.send_many("t", [b"x"]),
        lambda: producer.partitions_for("t"),
        lambda: producer.warmup("t"),
    ]
    for use in uses:
        with pytest.raises(ProducerClosedError):
            use()


def test_a_negative_timeout_is_refused_and_closes_nothing(mock_cluster: MockCluster) -> None:
    """P-A.9.1"""
    with new_producer(mock_cluster) as producer:
        with pytest.raises(ValueError, match="-1"):
            producer.close(-1)
        assert producer.send("t", b"x").result(BOUND_S).offset >= 0


def test_a_timeout_of_another_kind_delivers_what_is_queued_or_closes_nothing(
    mock_cluster: MockCluster,
) -> None:
    producer = new_producer(mock_cluster, linger_ms=60_000, delivery_timeout_ms=120_000)
    wrong: Any = timedelta(seconds=BOUND_S)
    for call in (producer.flush, producer.close):
        with pytest.raises(TypeError, match="timeout must be a number of seconds"):
            call(wrong)
    future = producer.send("t", b"x")
    exact: Any = Decimal(BOUND_S)
    producer.close(exact)
    assert future.result(0).offset >= 0


@pytest.mark.parametrize("timeout", [0, 2])
def test_what_a_dead_broker_leaves_behind_is_counted_exactly(
    mock_cluster: MockCluster, timeout: int
) -> None:
    """P-A.9.4, P-F.1.1. Some of the records are queued, some under way."""
    producer = new_producer(mock_cluster, batch_size=16_384)
    producer.send("t", b"delivered").result(BOUND_S)
    with frozen(mock_cluster.pid):
        under_way = [producer.send("t", bytes(100)) for _ in range(500)]
        bulk = producer.send_many("t", [bytes(100)] * 2_000)
        watched: list[object] = []
        producer.send("t", b"x", on_delivery=lambda metadata, error: watched.append(error))
        began_s = time.monotonic()
        with pytest.raises(UndeliveredError) as found:
            producer.close(timeout)
        print(f"close({timeout}) took {time.monotonic() - began_s:.3f} s")
    assert found.value.undelivered_count == 500 + 2_000 + 1
    assert "2,501 record(s)" in str(found.value)
    for future in under_way:
        assert isinstance(future.exception(0), KafkaError)
    assert len(bulk.failures(0)) == 2_000
    # A close whose time is over does not wait for callbacks.
    wait_until(lambda: [type(error) for error in watched] == [KafkaError])
    producer.close()


def test_a_broker_that_was_never_reached() -> None:
    """Nothing can be queued without metadata, so that there is nothing to lose."""
    with black_hole() as nowhere:
        producer = KafkaProducer(bootstrap_servers=nowhere, max_block_ms=200)
        future = producer.send("t", b"x")
        producer.close()
        assert isinstance(future.exception(0), MetadataTimeoutError)


def test_who_waits_for_metadata_is_released() -> None:
    """P-A.9.9"""
    with black_hole() as nowhere:
        producer = KafkaProducer(bootstrap_servers=nowhere)
        with expected_in_threads(4, lambda: producer.send("t", b"x"), ProducerClosedError):
            producer.close(1)


def test_who_waits_for_memory_is_released(mock_cluster: MockCluster) -> None:
    """P-A.9.3; what had been queued is counted, what waited is not."""
    producer = new_producer(mock_cluster, buffer_memory=500_000, batch_size=16_384)

    def fill() -> None:
        while True:
            producer.send("t", bytes(10_000))

    def fill_in_bulk() -> None:
        producer.send_many("t", [bytes(10_000)] * 1_000)

    with (
        frozen(mock_cluster.pid),
        expected_in_threads(2, fill, ProducerClosedError),
        expected_in_threads(2, fill_in_bulk, ProducerClosedError),
    ):
        wait_until(lambda: producer._engine.counters()["waiting_threads"] == 4)
        queued = incomplete_for_test(producer._engine)[1]
        with pytest.raises(UndeliveredError) as found:
            producer.close(0)
        assert found.value.undelivered_count == queued


def test_who_waits_for_a_result_or_flushes_is_released(mock_cluster: MockCluster) -> None:
    producer = new_producer(mock_cluster)
    with frozen(mock_cluster.pid):
        future = producer.send("t", b"x")
        bulk = producer.send_many("t", [b"x"] * 10)
        flushing = threading.Thread(target=producer.flush)
        flushing.start()
        with (
            expected_in_threads(2, future.result, KafkaError),
            expected_in_threads(2, bulk.result, BulkError),
            pytest.raises(UndeliveredError),
        ):
            producer.close(0)
        flushing.join(BOUND_S)
        assert not flushing.is_alive()


def test_close_in_a_callback_throws_away_what_is_left(mock_cluster: MockCluster) -> None:
    """P-A.9.5: it counts as close(0), and the callbacks that are left still run."""
    producer = new_producer(mock_cluster, linger_ms=60_000)
    raised: list[BaseException] = []
    left: list[object] = []
    closed = threading.Event()

    def close(metadata: object, error: object) -> None:
        with frozen(mock_cluster.pid):  # or the record could be delivered in time
            producer.send("t", b"left", on_delivery=lambda metadata, error: left.append(error))
            try:
                producer.close()
            except BaseException as error:
                raised.append(error)
        closed.set()

    producer.send("t", b"x", on_delivery=close)
    producer.send("t", b"x").result(BOUND_S)  # hurries the batch that both are in
    assert closed.wait(BOUND_S)
    wait_until(lambda: len(left) == 1)
    assert [type(error) for error in raised] == [UndeliveredError]
    assert isinstance(left[0], KafkaError)
    assert producer.closed


def test_flush_in_a_callback_raises_instead_of_waiting_for_itself(
    mock_cluster: MockCluster,
) -> None:
    """P-A.7.4 (KIP-1118)"""
    raised: list[BaseException] = []

    def flush(metadata: object, error: object) -> None:
        try:
            producer.flush()
        except BaseException as error:
            raised.append(error)

    with new_producer(mock_cluster) as producer:
        producer.send("t", b"x", on_delivery=flush)
        producer.flush(BOUND_S)
        assert [type(error) for error in raised] == [KafkaError]
        assert "callback" in str(raised[0])


def test_a_flush_that_ends_before_the_callbacks_says_so(mock_cluster: MockCluster) -> None:
    """P-A.7.6: after a flush that returns, everything is done; this one must not return."""
    may_end = threading.Event()
    with new_producer(mock_cluster) as producer:
        future = producer.send("t", b"x", on_delivery=lambda metadata, error: may_end.wait(BOUND_S))
        wait_until(lambda: incomplete_for_test(producer._engine)[1] == 0)
        with pytest.raises(FlushTimeoutError, match="callbacks") as found:
            producer.flush(0.05)
        assert found.value.undelivered_count == 0
        assert not future.done()
        may_end.set()
        producer.flush(BOUND_S)
        assert future.done()


def test_every_record_that_was_taken_is_accounted_for_when_others_send_during_close(
    mock_cluster: MockCluster,
) -> None:
    """A record is either refused by send, or its future is done when close has returned."""
    for _ in range(20):
        producer = new_producer(mock_cluster)
        taken: list[BulkFuture | RecordFuture] = []
        send = partial(send_until_closed, producer, taken)
        with expected_in_threads(3, send, ProducerClosedError):
            while not taken:
                time.sleep(0.001)
            producer.close()
        assert incomplete_for_test(producer._engine)[0] == 0
        assert all(future.done() for future in taken)


def send_until_closed(producer: KafkaProducer, taken: list[BulkFuture | RecordFuture]) -> None:
    """Send, one by one and in bulk, until it is refused; keep the futures."""
    while True:
        taken.append(producer.send_many("t", [b"x"] * 300))
        taken.append(producer.send("t", b"x"))


def test_threads_and_descriptors_are_gone_although_the_producer_is_kept(
    mock_cluster: MockCluster,
) -> None:
    """P-G.1.2."""
    before = Census()
    kept = []
    for number in range(5):
        producer = new_producer(mock_cluster)
        producer.send("t", b"x", on_delivery=lambda metadata, error: None)
        if number % 2:
            producer.flush(BOUND_S)
        producer.close()
        kept.append(producer)
    assert before.wait_until_nothing_is_left() == []


def test_memory_is_gone_although_the_producer_is_kept(peer: Peer) -> None:
    """Of its records' buffer; a producer that is dropped waits for the garbage collector, too."""
    kept_mb = 48
    peer.on(INIT_PRODUCER_ID).hold()
    producer = quick_producer(peer, buffer_memory=kept_mb << 20, warmup_topics=["t"])
    producer.partitions_for("t")
    # A larger one would not be copied; and one alone, since sanitizers keep what is freed.
    value = bytes(10_000)
    before = resident_bytes()
    for _ in range((kept_mb - 8) * 100):
        producer.send("t", value, partition=0)
    full = resident_bytes()
    assert full - before > 30_000_000
    with pytest.raises(UndeliveredError):
        producer.close(0)
    assert resident_bytes() - before < (full - before) // 2


def resident_bytes() -> int:
    """What this process has in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()
