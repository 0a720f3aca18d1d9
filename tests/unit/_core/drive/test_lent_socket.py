"""A socket that is lent is never forgotten."""

from __future__ import annotations

import threading
import time

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerFactory

BOUND_S = 30.0


def test_an_answer_that_nobody_comes_for_is_read_all_the_same(new_peer: PeerFactory) -> None:
    """The guard: nothing else happens to the producer until the record is done."""
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for _ in range(3):
            for _ in range(4):
                producer.send("t", b"awaited").result(BOUND_S)
            future = producer.send("t", b"left")
            deadline_s = time.monotonic() + BOUND_S
            while not future.done():
                assert time.monotonic() < deadline_s
                time.sleep(0.001)
            assert future.succeeded()


def test_what_a_driver_leaves_in_flight_is_read(new_peer: PeerFactory) -> None:
    """The second thread's record is answered when the first one has gone."""
    peer = new_peer({"t": 2})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for _ in range(4):
            producer.send("t", b"awaited", partition=0).result(BOUND_S)
        peer.on(PRODUCE).hold().times(2)
        first = producer.send("t", b"first", partition=0)
        threads = [threading.Thread(target=first.result, args=(BOUND_S,))]
        threads[0].start()
        peer.wait_until_held()
        second = producer.send("t", b"second", partition=1)
        threads.append(threading.Thread(target=second.result, args=(BOUND_S,)))
        threads[1].start()
        peer.wait_until(lambda: peer.held_count == 2)
        peer.release()
        for thread in threads:
            thread.join(BOUND_S)
        assert first.succeeded()
        assert second.succeeded()
