"""flush, and the end of a with block, as users see them (P-A.7, P-A.11): against a peer."""

from __future__ import annotations

import threading

import pytest

from fastprod import RecordFuture
from fastprod.protocol.api_keys import PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

TOPIC_AUTHORIZATION_FAILED = 29


def test_after_flush_every_record_is_done_delivered_or_not(peer: Peer) -> None:
    """P-A.7.1, P-A.7.6, P-L.24 testFlushCompleteSendOfInflightBatches: linger does not hold it
    up.
    """
    peer.on(PRODUCE).error(TOPIC_AUTHORIZATION_FAILED).for_partition("t", 1).once()
    with quick_producer(peer, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"v", partition=each % 3) for each in range(50)]
        assert not any(future.done() for future in futures)
        producer.flush()
        assert all(future.done() for future in futures)
        assert {future.failed() for future in futures[1::3]} == {True}
        assert {future.failed() for future in futures[0::3] + futures[2::3]} == {False}


def test_a_flush_holds_up_no_other_thread_and_waits_for_no_later_record(peer: Peer) -> None:
    """P-A.7.2."""
    with quick_producer(peer, linger_ms=60_000) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        first = producer.send("t", b"first", partition=0)
        flushing = threading.Thread(target=producer.flush)
        flushing.start()
        peer.wait_until_held()  # nothing but the flush sends it
        peer.on(PRODUCE).for_partition("t", 1).hold().once()
        later = producer.send("t", b"later", partition=1)
        assert flushing.is_alive()
        peer.wait_until_held(2)
        peer.release(1)
        flushing.join(WAIT_S)
        assert not flushing.is_alive()
        assert first.done()
        assert not later.done()
        peer.release()
        later.result(WAIT_S)


def test_a_block_that_ends_with_an_error_delivers_what_was_sent(peer: Peer) -> None:
    """P-A.11."""
    producer = quick_producer(peer)
    futures: list[RecordFuture] = []

    def send_and_raise() -> None:
        with producer:
            futures.append(producer.send("t", b"v", partition=0))
            raise RuntimeError("of the block")

    with pytest.raises(RuntimeError, match="of the block"):
        send_and_raise()
    assert producer.closed
    assert futures[0].result(0).offset == 0
