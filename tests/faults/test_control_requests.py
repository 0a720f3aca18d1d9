"""Requests of the control thread beside Produce, and connections that end (P-G.2, P-G.3)."""

from __future__ import annotations

import itertools
import threading
import time

from fastprod._core.engine.control_queue import EventKind
from fastprod.protocol.api_keys import API_VERSIONS, METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.engine.sender_steps import Steps
from support.peer.scripted_peer import Peer

SLACK_S = 0.01


def test_lost_requests_come_back_in_the_order_of_their_sending(peer: Peer) -> None:
    """P-G.2.5, P-L.170 testDisconnectWithMultipleInFlights: without sequences that would tell
    it.
    """
    with quick_producer(peer, enable_idempotence=False, linger_ms=0) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).silence().times(4)
        futures = []
        for number in range(4):
            futures.append(producer.send("t", b"%d" % number, partition=0))
            peer.wait_for(PRODUCE, number + 1)
        peer.close_all()
        assert [future.result(WAIT_S).offset for future in futures] == [0, 1, 2, 3]
    assert peer.values("t", 0) == [b"0", b"1", b"2", b"3"]


def test_a_broker_that_hangs_up_on_api_versions_is_tried_ever_more_slowly(peer: Peer) -> None:
    """P-G.2.5, P-L.170 testServerDisconnectAfterInternalApiVersionRequest: nobody else hears of
    it.
    """
    peer.on(API_VERSIONS).close().times(4)
    with quick_producer(peer, reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000) as producer:
        assert producer.send("t", b"v", partition=0).result(WAIT_S).offset == 0
    asked = peer.requests(API_VERSIONS)[:5]
    gaps_s = [after.received_s - before.received_s for before, after in itertools.pairwise(asked)]
    for gap_s, base_ms in zip(gaps_s, (50, 100, 200, 400), strict=True):
        assert gap_s >= 0.8 * base_ms / 1000 - SLACK_S


def test_a_frame_for_a_node_without_a_connection_is_answered_as_lost() -> None:
    """P-G.2.6: where Java raises; who asked is told at once, by its own token."""
    sender = Steps()
    sender.engine.send_frame(3, 77, bytes(20))
    sender.door.obey()
    (event,) = sender.events(EventKind.ON_RESPONSE)
    assert (event.slot, event.token, event.data) == (3, 77, None)


def test_metadata_passes_requests_that_wait_for_their_answers(peer: Peer) -> None:
    """P-G.2.8, P-L.89 testInitProducerIdRequestWithMaxInFlightOne: the one place in flight is
    taken, and a new topic is asked for all the same."""
    peer.add_topic("u")
    with quick_producer(peer, max_in_flight_requests_per_connection=1) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        first = producer.send("t", b"v", partition=0)
        peer.wait_until_held()
        before = len(peer.requests(METADATA))
        sending = threading.Thread(target=lambda: producer.send("u", b"v"))
        sending.start()
        peer.wait_for(METADATA, before + 1)
        assert peer.held_count == 1
        assert not first.done()
        peer.release()
        sending.join(WAIT_S)
        assert first.result(WAIT_S).offset == 0
    assert peer.values("u", 0) == [b"v"]


def test_after_an_idle_close_the_backoff_is_kept(peer: Peer) -> None:
    """P-G.3.1, P-G.3.2: the first attempt comes after the base, and loses nothing."""
    idle_ms, backoff_ms = 1_000, 400
    with quick_producer(
        peer,
        connections_max_idle_ms=idle_ms,
        reconnect_backoff_ms=backoff_ms,
        reconnect_backoff_max_ms=backoff_ms,
    ) as producer:
        producer.send("t", b"1", partition=0).result(WAIT_S)
        deadline_s = time.monotonic() + WAIT_S
        while peer.open_connections:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
            producer._engine.metadata_seen()  # a turn of the I/O thread, and nothing to send
        before = peer.requests()[-1]
        assert producer.send("t", b"2", partition=0).result(WAIT_S).offset == 1
    after = next(each for each in peer.requests() if each.arrival > before.arrival)
    waited_s = after.received_s - before.received_s
    assert waited_s >= (idle_ms + backoff_ms) / 1000 - SLACK_S
