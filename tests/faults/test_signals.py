"""Ctrl-C gets through every wait within about 50 ms, and leaves a producer that works.

The delays are printed; only a generous bound is asserted.
"""

from __future__ import annotations

import os
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fastprod import KafkaProducer
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import KafkaTimeoutError, ProducerClosedError
from fastprod.protocol.api_keys import PRODUCE
from mock_cluster import MockCluster
from support.broker.black_hole import black_hole, frozen
from support.broker.sockets import until
from support.engine.quick_producer import quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.processes import leak_guard
from support.processes.child_python import run_python

BOUND_S = 20.0
AFTER_S = 0.3
BUFFER_BYTES = 1_000_000


def interrupted(
    where: str, wait: Callable[[], object], is_waiting: Callable[[], object] | None = None
) -> None:
    """`wait` gets a SIGINT when `is_waiting` returns, after AFTER_S by default; it raises
    KeyboardInterrupt, and soon."""
    sent_s = []
    is_over = threading.Event()

    def interrupt() -> None:
        if is_waiting is not None:
            is_waiting()
        if not is_over.wait(AFTER_S if is_waiting is None else 0):
            sent_s.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come before the wait
            interrupting.start()
            wait()
        delay_s = time.monotonic() - sent_s[0]
    finally:
        is_over.set()
        interrupting.join()
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
    assert incomplete_for_test(producer._engine)[0] == 0
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
        assert incomplete_for_test(producer._engine)[0] == 0


def test_while_waiting_for_memory(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    """P-D.3.5: who is interrupted leaves the line, and gives back what he had gathered."""
    with frozen(mock_cluster.pid):
        interrupted("memory (send)", lambda: fill(producer))
        interrupted("memory (send_many)", lambda: producer.send_many("t", [bytes(10_000)] * 200))
        assert producer._engine.counters()["waiting_threads"] == 0
    assert_works(producer)


def test_while_memory_comes_steadily(new_peer: PeerFactory) -> None:
    """Each wait for it is short, and there are many of them."""
    peer = new_peer({"t": 1})
    with quick_producer(peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0) as producer:
        producer.warmup("t")
        rule = peer.on(PRODUCE).delay(0.02).always()
        interrupted("memory that comes", lambda: producer.send_many("t", [bytes(1_000)] * 20_000))
        rule.cancel()
    assert 0 < len(peer.values("t", 0)) < 10_000


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


def test_while_waiting_for_a_transaction() -> None:
    """P-A.8.8"""
    with (
        black_hole() as nowhere,
        KafkaProducer(bootstrap_servers=nowhere, transactional_id="x") as producer,
    ):
        interrupted("init_transactions", producer.init_transactions)
        with pytest.raises(KafkaTimeoutError, match="call it again"):
            producer.init_transactions(0)
        producer.close(0)


def test_while_a_commit_waits_for_callbacks(new_peer: PeerFactory) -> None:
    """P-A.8.5: the same call again tells that it has succeeded."""
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    may_go_on = threading.Event()

    def is_committed() -> None:
        peer.wait_until(lambda: bool(peer.log("t", 0, committed=True)))
        time.sleep(AFTER_S)

    with quick_producer(peer, transactional_id="x") as producer:
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.send("t", b"x", on_delivery=lambda *_: may_go_on.wait(20))
        interrupted("callbacks", producer.commit_transaction, is_committed)
        may_go_on.set()
        producer.commit_transaction(20)
        with producer.transaction(20):
            producer.send("t", b"next")
    assert [each.value for each in peer.log("t", 0, committed=True)] == [b"x", b"next"]


def test_while_flushing(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    """P-A.7.3"""
    with frozen(mock_cluster.pid):
        future = producer.send("t", b"x")
        interrupted("flush()", producer.flush)
        assert not future.done()
    assert_works(producer)


def test_an_interrupted_flush_leaves_no_hurry_behind(new_peer_cluster: PeerClusterFactory) -> None:
    """P-A.7.3, P-D.10.5, P-L.50 testAwaitFlushComplete: linger counts again, as the other node's
    record shows."""
    cluster = new_peer_cluster(nodes=2, topics={"t": 2})
    with quick_producer(cluster, linger_ms=60_000, batch_size=1_000) as producer:
        cluster.on(PRODUCE).hold().once()
        first = producer.send("t", b"first", partition=0)
        interrupted("flush()", producer.flush, cluster.wait_until_held)
        assert not first.done()
        cluster.release()
        lingering = producer.send("t", b"lingers", partition=1)
        full, _ = (producer.send("t", bytes(900), partition=0) for _ in range(2))
        assert full.result(20).offset == 1
        # A future is done a moment before its batch no longer counts.
        cluster.wait_until(lambda: incomplete_for_test(producer._engine)[0] == 2)
        assert not lingering.done()
        assert cluster.values("t", 1) == []


def test_while_closing(producer: KafkaProducer, mock_cluster: MockCluster) -> None:
    """P-A.9.7, P-L.10 shouldCloseProperlyAndThrowIfInterrupted: it ends at once, then lets the
    interrupt through."""

    def is_amid() -> None:
        until(lambda: producer.closed)
        time.sleep(AFTER_S)

    with frozen(mock_cluster.pid):
        future = producer.send("t", b"x")
        interrupted("close()", producer.close, is_amid)
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


CLOSING = """
import json, signal, sys, threading, time
from support.processes import forking
import fastprod.producer
from fastprod import KafkaProducer
from fastprod.errors import ProducerClosedError

producer = KafkaProducer(bootstrap_servers=sys.argv[1])
handled = []

def close(*_):
    producer.close(10)
    handled.append(producer.closed)

def interrupted(function):
    def run(*arguments, **keywords):
        found = function(*arguments, **keywords)
        if not handled:
            signal.raise_signal(signal.SIGTERM)
        return found
    return run

def refused():
    try:
        producer.send("t", b"refused", on_delivery=print)
    except ProducerClosedError:
        return handled

signal.signal(signal.SIGTERM, close)
producer.send("t", b"first").result(20)
"""


@pytest.mark.parametrize("where", ["bootstrap_nodes", "NetworkClient.start"])
def test_a_handler_may_close_what_a_forked_child_is_about_to_make(
    mock_cluster: MockCluster, where: str
) -> None:
    """Resolving names may take seconds, in which a worker is told to end."""
    script = f"""
        def child():
            module = fastprod.producer
            module.{where} = interrupted(module.{where})
            ends = refused()
            return [ends, producer.closed, threading.active_count(), forking.sockets()]

        print(json.dumps({{"child": forking.Child(child).result()}}))
        producer.close()
        """
    told = run_python(CLOSING + textwrap.dedent(script), mock_cluster.bootstrap_servers).told
    assert told == {"child": [[True], True, 1, []]}


def test_a_handler_may_close_while_the_thread_of_the_callbacks_is_started(
    mock_cluster: MockCluster,
) -> None:
    script = """
        def child():
            producer.send("t", b"of the child").result(20)
            threading.Thread.start = interrupted(threading.Thread.start)
            return [refused(), producer.closed, threading.active_count(), forking.sockets()]

        print(json.dumps({"child": forking.Child(child).result()}))
        producer.close()
        """
    told = run_python(CLOSING + textwrap.dedent(script), mock_cluster.bootstrap_servers).told
    assert told == {"child": [[True], True, 1, []]}


def test_a_handler_may_send_while_the_thread_of_the_callbacks_is_started(
    mock_cluster: MockCluster,
) -> None:
    script = """
        calls = []

        def note(metadata, error):
            calls.append([threading.current_thread().name, error])

        def send(*_):
            handled.append(True)
            producer.send("t", b"from the handler", on_delivery=note)

        def child():
            producer.send("t", b"of the child").result(20)
            signal.signal(signal.SIGTERM, send)
            threading.Thread.start = interrupted(threading.Thread.start)
            producer.send("t", b"interrupted", on_delivery=note)
            producer.flush(20)
            threads = [each.name for each in threading.enumerate() if "delivery" in each.name]
            producer.close(20)
            return [len(calls), len(threads), len({name for name, _ in calls}), len(handled)]

        print(json.dumps({"child": forking.Child(child).result()}))
        producer.close()
        """
    told = run_python(CLOSING + textwrap.dedent(script), mock_cluster.bootstrap_servers).told
    assert told == {"child": [2, 1, 1, 1]}
