"""`purge`: what is given up, what goes on, and that sequences are right afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod import RecordFuture
from fastprod.errors import KafkaError, ProducerClosedError, RecordPurgedError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

LONG_MS = 600_000
NOT_LEADER = 6


def purged(futures: list[RecordFuture], *, was_sent: bool) -> bool:
    """Whether all of them were purged, and say so."""
    errors = [future.exception(WAIT_S) for future in futures]
    assert all(isinstance(error, RecordPurgedError) for error in errors)
    assert all(not future.cancel() and not future.cancelled() for future in futures)
    return all(
        error.was_sent is was_sent for error in errors if isinstance(error, RecordPurgedError)
    )


def test_what_is_queued_fails_and_what_is_under_way_goes_on(peer: Peer) -> None:
    with quick_producer(peer, linger_ms=LONG_MS) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        seen: list[Any] = []
        first = producer.send("t", b"first", partition=0)
        assert first.add_callback(seen.append)
        with pytest.raises(TimeoutError):
            first.result(0)  # so that it goes
        peer.wait_until_held()
        queued = [
            producer.send(
                "t", b"%d" % n, partition=n % 2, on_delivery=lambda *each: seen.append(each[1])
            )
            for n in range(40)
        ]
        assert queued[7].cancel()
        assert producer.purge() == 39
        assert purged(queued[:7] + queued[8:], was_sent=False)
        assert not first.done()
        assert producer.purge() == 0
        peer.release()
        assert first.result(WAIT_S).offset == 0
        assert producer.send("t", b"after", partition=0).result(WAIT_S).offset == 1
        assert peer.values("t", 0) == [b"first", b"after"]
        assert peer.values("t", 1) == []
        assert sum(isinstance(each, RecordPurgedError) for each in seen) == 39
        assert "were given up by purge(); they were never sent" in str(queued[0].exception())


@pytest.mark.parametrize("is_written", [True, False])
def test_what_is_under_way_fails_and_the_sequences_go_on(peer: Peer, is_written: bool) -> None:
    """Whether the broker has it or not: what comes later arrives, once and in order."""
    with quick_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"known", partition=0).result(WAIT_S)
        rule = peer.on(PRODUCE).hold(before_append=not is_written)
        under_way = [producer.send("t", b"away", partition=0)]
        peer.wait_until_held()
        queued = [producer.send("t", b"%d" % n, partition=1) for n in range(3)]
        assert producer.purge(queued=False, in_flight=True) >= 1
        assert purged(under_way, was_sent=True)
        assert "may have been written" in str(under_way[0].exception())
        rule.cancel()
        peer.release()
        later = [producer.send("t", b"later %d" % n, partition=0) for n in range(5)]
        offsets = [future.result(WAIT_S).offset for future in later]
        assert offsets == list(range(offsets[0], offsets[0] + 5))
        values = peer.values("t", 0)
        assert [value for value in values if value != b"away"] == [b"known"] + [
            b"later %d" % n for n in range(5)
        ]
        assert values.count(b"away") <= 1
        for future in queued:
            error = future.exception(WAIT_S)
            assert error is None or isinstance(error, RecordPurgedError)


def test_what_waits_to_be_sent_again_counts_as_under_way(peer: Peer) -> None:
    # For good: a request with it may still be on its way when it is given up.
    rule = peer.on(PRODUCE).when(lambda request: b"again" in request.batches[0].values)
    rule.error(NOT_LEADER).always()
    with quick_producer(peer, linger_ms=0, retry_backoff_ms=50) as producer:
        producer.warmup("t")
        again = producer.send("t", b"again", partition=0)
        rule.wait_for_hits(2)
        assert producer.purge(queued=True) == 0
        assert not again.done()
        assert producer.purge(queued=True, in_flight=True) == 1
        assert purged([again], was_sent=True)
        assert producer.send("t", b"after", partition=0).result(WAIT_S).offset == 0
        assert peer.values("t", 0) == [b"after"]


def test_memory_comes_back_and_the_connection_stays(peer: Peer) -> None:
    with quick_producer(peer, linger_ms=0, batch_size=16_384, buffer_memory=1 << 18) as producer:
        producer.warmup("t")
        rule = peer.on(PRODUCE).hold()
        while not producer.try_send("t", bytes(5_000), partition=0).done():
            pass
        assert producer.purge(queued=True, in_flight=True) > 10
        rule.cancel()
        peer.release()

        def is_back() -> bool:
            found = producer._engine.counters()
            return bool(found["buffer_available_bytes"] == found["buffer_total_bytes"])

        peer.wait_until(is_back, WAIT_S, "the pool whole again")
        assert producer.send("t", b"after", partition=0).result(WAIT_S)


def test_a_transaction_with_purged_records_cannot_be_committed(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    with quick_producer(peer, transactional_id="ledger", linger_ms=LONG_MS) as producer:
        producer.init_transactions(WAIT_S)
        producer.warmup("t")
        producer.begin_transaction()
        producer.send("t", b"purged", partition=0)
        assert producer.purge() == 1
        with pytest.raises(KafkaError):
            producer.commit_transaction(WAIT_S)
        producer.abort_transaction(WAIT_S)
        with producer.transaction():
            producer.send("t", b"clean", partition=0)
        assert peer.values("t", 0) == [b"clean"]


def test_a_closed_producer_has_nothing_to_purge(peer: Peer) -> None:
    rule = peer.on(INIT_PRODUCER_ID).hold()
    producer = quick_producer(peer, warmup_topics=["t"])
    producer.partitions_for("t")
    producer.send("t", b"x")
    assert producer.purge(in_flight=True) == 1
    rule.cancel()
    peer.release()
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.purge()
