"""The interpreter's exit delivers what is queued, within a bound, and never hangs or crashes.

Each script runs in a Python of its own. How long an exit took is printed, not asserted: what hangs
is ended by the bound of `child_python`.
"""

from __future__ import annotations

import os
import signal
import textwrap
import time

import pytest

from fastprod.protocol.api_keys import PRODUCE
from mock_cluster import MockCluster
from support.broker.black_hole import black_hole, frozen
from support.peer.scripted_peer import Peer
from support.processes.child_python import Finished, finish, run_python, start_python
from support.records.readers import read_with_confluent

PRELUDE = """
import os, sys, threading, time
import fastprod.producer
from fastprod import KafkaProducer

bootstrap = sys.argv[1]

def new_producer(**config):
    return KafkaProducer(bootstrap_servers=bootstrap, **config)

def say(text):
    os.write(1, (text + "\\n").encode())
"""


def run(bootstrap_servers: str, script: str) -> Finished:
    """Run a script after the prelude. It says `end` last, so that its exit can be timed."""
    began_s = time.monotonic()
    finished = run_python(PRELUDE + textwrap.dedent(script), bootstrap_servers)
    print(f"the whole script took {time.monotonic() - began_s:.2f} s")
    return finished


def values(cluster: MockCluster, topic: str = "t") -> list[bytes]:
    """Every value of the topic, sorted."""
    logs = read_with_confluent(cluster.bootstrap_servers, topic).values()
    return sorted(record.value or b"" for log in logs for record in log)


def numbered(count: int, name: bytes = b"v") -> list[bytes]:
    """The values of records 0..count-1, sorted."""
    return sorted(b"%s-%d" % (name, i) for i in range(count))


def test_an_idle_producer_does_not_hold_up_the_exit(mock_cluster: MockCluster) -> None:
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        producer = new_producer()
        producer.send("t", b"v-0").result(20)
        def timed(close=fastprod.producer.KafkaProducer.close):
            def inner(self, timeout=None):
                began_s = time.monotonic()
                close(self, timeout)
                say(f"close at exit took {(time.monotonic() - began_s) * 1000:.1f} ms")
            return inner
        fastprod.producer.KafkaProducer.close = timed()
        """,
    )
    assert finished.code == 0, finished
    assert "close at exit took" in finished.output
    print(finished.output)


@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("sys.exit(3)", 3), ("raise RuntimeError('uncaught')", 1), ("del producer", 0)],
    ids=["end of script", "sys.exit", "uncaught exception", "dropped"],
)
def test_what_is_queued_is_delivered_and_callbacks_run(
    mock_cluster: MockCluster, end: str, code: int
) -> None:
    finished = run(
        mock_cluster.bootstrap_servers,
        f"""
        called = []
        def sent(metadata, error):
            called.append(error)
            if len(called) == 1000:
                say(f"called {{len(called)}} times, errors: {{set(called)}}")
        producer = new_producer(linger_ms=5_000)
        futures = [producer.send("t", b"v-%d" % i, on_delivery=sent) for i in range(1000)]
        {end}
        """,
    )
    assert finished.code == code, finished
    assert "called 1000 times, errors: {None}" in finished.output, finished
    assert values(mock_cluster) == numbered(1000)


def test_a_block_that_is_left_by_an_exit_delivers(mock_cluster: MockCluster) -> None:
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        with new_producer() as producer:
            unread = [producer.send("t", b"v-%d" % i) for i in range(100)]
            sys.exit(4)
        """,
    )
    assert finished.code == 4, finished
    assert values(mock_cluster) == numbered(100)


def test_an_exit_in_a_thread_ends_that_thread_only(mock_cluster: MockCluster) -> None:
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        producer = new_producer()
        def leave():
            producer.send("t", b"v-0")
            sys.exit(5)
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        producer.send("t", b"v-1").result(20)
        """,
    )
    assert finished.code == 0, finished
    assert values(mock_cluster) == numbered(2)


def test_an_exit_in_a_callback_ends_nothing(mock_cluster: MockCluster) -> None:
    """P-A.3.15: what a callback raises is logged, and the others still run."""
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        producer = new_producer(linger_ms=100)
        called = []
        def leave(metadata, error):
            called.append(1)
            sys.exit(5)
        futures = [producer.send("t", b"v-%d" % i, on_delivery=leave) for i in range(10)]
        futures[0].add_done_callback(lambda future: called.append(1))
        producer.flush(20)
        again = producer.send("t", b"v-10", on_delivery=leave)
        producer.flush(20)
        say(f"called {len(called)} times, {all(f.done() for f in (*futures, again))}")
        """,
    )
    assert finished.code == 0, finished
    assert "called 12 times, True" in finished.output, finished
    assert values(mock_cluster) == numbered(11)


def test_threads_that_go_on_sending_do_not_disturb_the_exit(mock_cluster: MockCluster) -> None:
    """Daemon threads learn that the producer is closed, or are cut off with the interpreter."""
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        from fastprod.errors import ProducerClosedError
        producer = new_producer(buffer_memory=1_000_000, batch_size=16_384)
        producer.warmup("t")
        def send():
            try:
                while True:
                    producer.send("t", b"x", on_delivery=lambda metadata, error: None)
            except ProducerClosedError:
                say("closed")
        def send_bulk():
            try:
                while True:
                    producer.send_many("t", [b"x" * 100] * 5_000)
            except ProducerClosedError:
                say("closed")
        def wait():
            while True:
                producer.send("t", b"x").result(20)
        for work in (send, send, send_bulk, wait):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        """,
    )
    assert finished.code == 0, finished
    assert "Fatal" not in finished.errors


def test_the_exit_waits_for_threads_of_the_application(mock_cluster: MockCluster) -> None:
    """Python joins threads that are no daemons first; they may send until they end."""
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        producer = new_producer()
        def send():
            for i in range(300):
                producer.send("t", b"v-%d" % i)
                time.sleep(0.001)
        threading.Thread(target=send).start()
        """,
    )
    assert finished.code == 0, finished
    assert values(mock_cluster) == numbered(300)


def test_a_dead_broker_holds_up_the_exit_for_a_bounded_time(mock_cluster: MockCluster) -> None:
    script = """
    fastprod.producer._EXIT_TIMEOUT_S = 1.0
    producer = new_producer()
    producer.send("t", b"v-0").result(20)
    say("ready")
    sys.stdin.readline()
    lost = [producer.send("t", b"lost") for _ in range(7)]
    """
    process = start_python(PRELUDE + textwrap.dedent(script), mock_cluster.bootstrap_servers)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with frozen(mock_cluster.pid):
        began_s = time.monotonic()
        finished = finish(process)
        print(f"sending and exit took {time.monotonic() - began_s:.2f} s")
    assert finished.code == 0, finished
    assert "7 record(s) were not delivered" in finished.errors, finished


def test_waits_of_daemon_threads_do_not_hold_up_the_exit() -> None:
    """One waits for metadata that never comes; the broker is a black hole."""
    with black_hole() as nowhere:
        finished = run(
            nowhere,
            """
            producer = new_producer()
            waiting = threading.Event()
            def send():
                say("waiting")
                waiting.set()
                producer.send("t", b"x")
            threading.Thread(target=send, daemon=True).start()
            waiting.wait(20)
            time.sleep(0.3)
            """,
        )
    assert finished.code == 0, finished
    assert "waiting" in finished.output


def test_a_bulk_of_an_event_loop_does_not_hold_up_the_exit(mock_cluster: MockCluster) -> None:
    """Its thread waits for memory that never comes, in a loop that nobody runs any more."""
    script = """
    import asyncio
    from fastprod.aio import AsyncProducer
    fastprod.producer._EXIT_TIMEOUT_S = 1.0
    producer = AsyncProducer(bootstrap_servers=bootstrap, buffer_memory=1 << 20)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(asyncio.wait_for(producer.send("t", b"v-0"), 20))
    say("ready")
    sys.stdin.readline()
    task = loop.create_task(producer.send_many("t", [bytes(1_000)] * 20_000))
    loop.run_until_complete(asyncio.sleep(0.5))
    say("end")
    """
    process = start_python(PRELUDE + textwrap.dedent(script), mock_cluster.bootstrap_servers)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with frozen(mock_cluster.pid):
        finished = finish(process)
    assert finished.code == 0, finished
    assert finished.output == "end\n"


def test_several_producers_are_all_closed(mock_cluster: MockCluster) -> None:
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        producers = [new_producer(linger_ms=1_000) for _ in range(5)]
        for number, producer in enumerate(producers):
            producer.send("t", b"v-%d" % number)
        """,
    )
    assert finished.code == 0, finished
    assert values(mock_cluster) == numbered(5)


def test_a_plug_in_that_leaves_while_it_is_closed_keeps_no_other_producer(
    mock_cluster: MockCluster,
) -> None:
    """P-A.9.6: those behind it have records that wait."""
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        class Leaving:
            def on_send(self, record):
                return record
            def close(self):
                say("closed")
                sys.exit(5)
        producers = [
            new_producer(linger_ms=10_000, interceptor_classes=[Leaving()]) for _ in range(3)
        ]
        for number, producer in enumerate(producers):
            producer.send("t", b"v-%d" % number)
        """,
    )
    assert finished.output.count("closed") == 3, finished
    assert values(mock_cluster) == numbered(3)


def test_a_logging_handler_that_leaves_keeps_no_other_producer(
    mock_cluster: MockCluster,
) -> None:
    finished = run(
        mock_cluster.bootstrap_servers,
        """
        import logging

        class Leaving(logging.Handler):
            def emit(self, record):
                sys.exit(5)

        class Failing:
            def on_send(self, record):
                return record
            def close(self):
                say("closed")
                raise RuntimeError("as plug-ins may")

        logging.getLogger("fastprod").addHandler(Leaving())
        producers = [
            new_producer(linger_ms=10_000, interceptor_classes=[Failing()]) for _ in range(3)
        ]
        for number, producer in enumerate(producers):
            producer.send("t", b"v-%d" % number)
        """,
    )
    assert finished.output.count("closed") == 3, finished
    assert values(mock_cluster) == numbered(3)


def test_producers_that_are_stuck_share_the_time_of_the_exit(peer: Peer) -> None:
    """All deliver at once: the second one does not wait until the first one is given up."""
    script = """
    producers = [new_producer(linger_ms=10_000) for _ in range(3)]
    for producer in producers:
        producer.send("t", b"v", partition=0)
    """
    peer.on(PRODUCE).hold().times(3)
    process = start_python(PRELUDE + textwrap.dedent(script), peer.bootstrap_servers)
    try:
        peer.wait_until_held(3, 60.0)  # a Python has to start first
    finally:
        peer.release()
        finished = finish(process)
    assert finished.code == 0, finished
    assert peer.values("t", 0) == [b"v"] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_ends_the_process_ends_it(
    mock_cluster: MockCluster, number: signal.Signals
) -> None:
    script = """
    producer = new_producer()
    producer.send("t", b"v-0").result(20)
    say("ready")
    while True:
        producer.send("t", b"x").result(20)
    """
    process = start_python(PRELUDE + textwrap.dedent(script), mock_cluster.bootstrap_servers)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, number)
    assert finish(process).code == -number
