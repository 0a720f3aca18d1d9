"""When a record leaves: fixed and adaptive linger, and what overrides them (contract P-D.5, P-A.7).

Told by the requests that come and by their order; round trips of metadata are the clock.
"""

from __future__ import annotations

import threading

import pytest

from fastprod import KafkaProducer
from fastprod.errors import FlushTimeoutError
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

FOREVER_MS = 60_000


def counts(peer: Peer) -> list[list[int]]:
    """Of each Produce request the records of each batch."""
    return [[each.header.record_count for each in one.batches] for one in peer.requests(PRODUCE)]


def let_time_pass(peer: Peer, producer: KafkaProducer, rounds: int = 30) -> None:
    """Round trips by the same two threads: a record that is due goes meanwhile."""
    for _ in range(rounds):
        name = f"clock-{len(peer.requests())}"
        peer.add_topic(name)
        producer.partitions_for(name)


def test_a_fixed_linger_gathers_until_it_is_over(peer: Peer) -> None:
    """P-D.5.2, P-L.41 testLinger: nothing goes before, and then all of it."""
    with quick_producer(peer, linger_ms=FOREVER_MS) as producer:
        producer.warmup("t")
        for number in range(50):
            producer.send("t", b"%d" % number, partition=0)
        let_time_pass(peer, producer)
        assert counts(peer) == []
        producer.flush(WAIT_S)
        assert counts(peer) == [[50]]
    with quick_producer(peer, linger_ms=50) as soon:
        soon.send("t", b"nobody waits", partition=0)
        peer.wait_for_log("t", 0, 51, WAIT_S)


def test_a_full_batch_does_not_linger(peer: Peer) -> None:
    """P-D.5.2, P-L.39 testFull, P-L.40: nobody waits for it; what is not full stays."""
    with quick_producer(peer, linger_ms=FOREVER_MS, batch_size=1_000) as producer:
        producer.warmup("t")
        for _ in range(10):
            producer.send("t", bytes(400), partition=0)
        peer.wait_for_log("t", 0, 8, WAIT_S)
        let_time_pass(peer, producer)
        assert {count for one in counts(peer) for count in one} == {2}
        assert len(peer.log("t", 0)) <= 10


def test_who_waits_for_a_record_makes_its_batch_go_and_others_ride_along(peer: Peer) -> None:
    """P-D.7.1: one request, with what lingers for the same broker."""
    with quick_producer(peer, linger_ms=FOREVER_MS) as producer:
        producer.warmup("t")
        along = producer.send("t", b"along", partition=0)
        let_time_pass(peer, producer, 5)
        assert counts(peer) == []
        assert producer.send("t", b"awaited", partition=1).result(WAIT_S).offset == 0
        assert along.result(WAIT_S).offset == 0
    assert counts(peer) == [[1, 1]]


def test_with_nothing_in_flight_a_record_leaves_at_once_and_alone(peer: Peer) -> None:
    """Adaptive linger: nobody waits for the record here. It mostly comes before a request that the
    same thread asks for right after it; after the bound of 5 ms it would mostly come later."""
    arrived = threading.Semaphore(0)
    with quick_producer(peer) as producer:
        producer.send("t", b"known", partition=0).result(WAIT_S)
        for number in range(60):
            name = f"after-{number}"
            peer.add_topic(name)
            producer.send(
                "t", b"%d" % number, partition=0, on_delivery=lambda *_: arrived.release()
            )
            producer.partitions_for(name)
            assert arrived.acquire(timeout=WAIT_S)
    assert counts(peer) == [[1]] * 61
    sent = [each.arrival for each in peer.requests(PRODUCE)[1:]]
    asked = [each.arrival for each in peer.requests(METADATA)][-60:]
    assert sum(record < topic for record, topic in zip(sent, asked, strict=True)) >= 15


def test_while_a_request_is_under_way_records_gather(peer: Peer) -> None:
    """Adaptive linger: its answer sends them off, all at once."""
    peer.on(PRODUCE).hold()
    with quick_producer(peer, max_in_flight_requests_per_connection=1) as producer:
        producer.warmup("t")
        producer.send("t", b"first", partition=0)
        peer.wait_until_held()
        for number in range(200):
            producer.send("t", b"%d" % number, partition=1)
        assert counts(peer) == [[1]]
        peer.release()
        peer.wait_for_log("t", 1, 200, WAIT_S)
    assert counts(peer) == [[1], [200]]


def test_a_request_that_hangs_holds_later_records_up_for_the_bound_alone(peer: Peer) -> None:
    """Adaptive linger: at most its bound, although no answer comes."""
    with quick_producer(peer) as producer:
        producer.send("t", b"known", partition=0).result(WAIT_S)
        peer.on(PRODUCE).hold()
        producer.send("t", b"hangs", partition=1)
        peer.wait_until_held()
        producer.send("t", b"goes", partition=0)
        peer.wait_for_log("t", 0, 2, WAIT_S)
        assert peer.held_count == 1
        peer.release()


@pytest.mark.parametrize("linger_ms", [None, FOREVER_MS])
def test_flushes_of_several_threads_nest_and_leave_linger_as_it_was(
    peer: Peer, linger_ms: int | None
) -> None:
    """P-A.7.1, P-A.7.3, P-D.10.5: each waits for what was sent before it; the last one ends the
    hurry.
    """
    peer.on(PRODUCE).hold()
    with quick_producer(peer, linger_ms=linger_ms) as producer:
        producer.warmup("t")
        futures = [producer.send("t", b"%d" % each, partition=each) for each in range(3)]
        threads = [threading.Thread(target=producer.flush) for _ in range(4)]
        for thread in threads:
            thread.start()
        peer.wait_until_held()
        with pytest.raises(FlushTimeoutError) as caught:
            producer.flush(0.05)
        assert 1 <= caught.value.undelivered_count <= 3
        assert caught.value.waited_ms == 50
        assert f"{caught.value.undelivered_count} record(s)" in str(caught.value)
        assert all(thread.is_alive() for thread in threads)
        peer.release()
        for thread in threads:
            thread.join(WAIT_S)
        assert not any(thread.is_alive() for thread in threads)
        assert all(future.succeeded() for future in futures)
        if linger_ms is not None:
            before = len(peer.requests(PRODUCE))
            producer.send("t", b"lingers", partition=0)
            let_time_pass(peer, producer)
            assert len(peer.requests(PRODUCE)) == before


def test_a_flush_of_nothing_and_one_after_failures_return(peer: Peer) -> None:
    """P-A.7.1, P-A.7.6: failed records are done records."""
    with quick_producer(peer, linger_ms=FOREVER_MS) as producer:
        producer.flush(0)
        producer.warmup("t")
        producer.flush(0)
        peer.on(PRODUCE).error(29)
        failed = producer.send("t", b"x", partition=0)
        bulk = producer.send_many("t", [b"y"] * 3, partitions=[1, 1, 1])
        producer.flush(WAIT_S)
        assert failed.failed()
        assert bulk.done()
