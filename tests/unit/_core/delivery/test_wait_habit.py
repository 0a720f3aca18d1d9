"""Only a thread that waits for what it sends is expected to wait again."""

from __future__ import annotations

from fastprod import KafkaProducer
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
