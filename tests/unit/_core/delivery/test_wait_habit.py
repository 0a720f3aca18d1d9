"""Only a thread that waits for what it sends is expected to wait again."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerFactory

BOUND_S = 30.0


def test_a_thread_that_stops_waiting_is_not_expected_to(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for _ in range(10):
            producer.send("t", b"awaited").result(BOUND_S)
        producer.send("t", b"left")
        before = producer._engine.counters()["caller_sends"]
        for _ in range(10):
            producer.send("t", b"left")
        assert producer._engine.counters()["caller_sends"] == before


def test_a_thread_that_flushes_waits(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for _ in range(50):
            producer.send("t", b"flushed")
            producer.flush(BOUND_S)
        assert producer._engine.counters()["caller_sends"] > 0


def drives(producer: KafkaProducer) -> int:
    """How often the caller sent of 20 records that it waits for, one after the other."""
    before = producer._engine.counters()["caller_sends"]
    for _ in range(20):
        producer.send("t", b"x").result(BOUND_S)
    return int(producer._engine.counters()["caller_sends"] - before)


def comes_to_drive(producer: KafkaProducer) -> None:
    """It sends by itself. Beside other work the I/O thread may be awake for 20 records."""
    until_s = time.monotonic() + BOUND_S
    while drives(producer) == 0:
        assert time.monotonic() < until_s


def test_where_others_wait_the_io_thread_does_all(new_peer: PeerFactory) -> None:
    """Whatever producers they wait for; there is a moment before they sleep, hence the turns."""
    slow, quick = new_peer({"t": 1}), new_peer({"t": 1})
    with (
        ThreadPoolExecutor(1) as threads,
        KafkaProducer(bootstrap_servers=slow.bootstrap_servers) as held,
        KafkaProducer(bootstrap_servers=quick.bootstrap_servers) as producer,
    ):
        comes_to_drive(producer)
        slow.on(PRODUCE).hold().always()
        waiting = threads.submit(held.send("t", b"x").result, BOUND_S)
        until_s = time.monotonic() + BOUND_S
        while drives(producer) > 0:
            assert time.monotonic() < until_s
        slow.clear_script()
        slow.release()
        waiting.result(BOUND_S)
        comes_to_drive(producer)
