"""Records with deadlines of their own, through the public API (need of a bound for each record)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    BufferExhaustedError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    RecordDeadlineError,
)
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

LONG_MS = 600_000


def error_of(future: Any) -> RecordDeadlineError:
    error = future.exception(WAIT_S)
    assert isinstance(error, RecordDeadlineError)
    return error


def test_a_record_that_cannot_leave_fails_at_its_deadline_and_never_arrives(peer: Peer) -> None:
    """Its neighbours in the batch go without it."""
    rule = peer.on(INIT_PRODUCER_ID).hold()
    with quick_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer:
        producer.partitions_for("t")
        before = producer.send("t", b"before", partition=0)
        began_s = time.monotonic()
        late = producer.send("t", b"late", partition=0, deadline=0.05)
        after = producer.send("t", b"after", partition=0, deadline=3600)
        error = error_of(late)
        assert time.monotonic() - began_s >= 0.05
        assert (error.was_sent, error.deadline_ms, error.topic, error.partition) == (
            False,
            50,
            "t",
            0,
        )
        assert isinstance(error, TimeoutError)
        assert "deadline of 50 ms; it was never sent" in str(error)
        assert not before.done()
        rule.cancel()
        peer.release()
        assert before.result(WAIT_S).offset == 0
        assert after.result(WAIT_S).offset == 1
        assert peer.values("t", 0) == [b"before", b"after"]
        assert not late.cancel()
        assert not late.cancelled()


def test_a_record_under_way_fails_and_its_batch_goes_on(peer: Peer) -> None:
    """Nobody knows whether it is written, and the error says so; here it is."""
    with quick_producer(peer, linger_ms=0) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        late = producer.send("t", b"late", partition=0)
        peer.wait_until_held()
        other = producer.send("t", b"other", partition=0)
        assert late._miss_deadline(1) is not None  # as the thread does that keeps deadlines
        assert error_of(late).was_sent
        assert "it was sent, and may be written" in str(error_of(late))
        assert not other.done()
        peer.release()
        assert other.result(WAIT_S).offset == 1
        assert peer.values("t", 0) == [b"late", b"other"]


def test_the_callback_runs_once_on_the_delivery_thread(peer: Peer) -> None:
    seen: list[tuple[str, Any]] = []

    def note(_: Any, error: KafkaError | None) -> None:
        seen.append((threading.current_thread().name, type(error)))

    rule = peer.on(INIT_PRODUCER_ID).hold()
    with quick_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer:
        producer.partitions_for("t")
        late = producer.send("t", b"late", partition=0, deadline=0.01, on_delivery=note)
        other = producer.send("t", b"other", partition=0, on_delivery=note)
        error_of(late)
        assert seen == [
            (f"kafka-producer-delivery | {producer.config.client_id}", RecordDeadlineError)
        ]
        rule.cancel()
        peer.release()
        other.result(WAIT_S)
    assert [error for _, error in seen] == [RecordDeadlineError, type(None)]


def test_what_send_waits_for_is_bounded_too(peer: Peer) -> None:
    """Metadata and memory; the error names which of them did not come."""
    rule = peer.on(METADATA).hold()
    with quick_producer(peer, max_block_ms=LONG_MS, linger_ms=0, buffer_memory=1 << 16) as producer:
        unknown = producer.send("t", b"x", deadline=0.05)
        assert isinstance(unknown.exception(0), MetadataTimeoutError)
        rule.cancel()
        peer.release()
        producer.warmup("t")
        peer.on(PRODUCE).hold()
        producer.send("t", b"held", partition=0)
        peer.wait_until_held()
        while not producer.try_send("t", bytes(10_000), partition=0).done():
            pass
        full = producer.send("t", bytes(10_000), partition=0, deadline=0.05)
        assert isinstance(full.exception(0), BufferExhaustedError)
        peer.release()


def test_a_record_that_is_acknowledged_in_time_is_not_touched(peer: Peer) -> None:
    with quick_producer(peer) as producer:
        futures = [producer.send("t", b"%d" % number, deadline=3600) for number in range(3_000)]
        assert all(future.result(WAIT_S) for future in futures)


def test_with_plug_ins_the_deadline_holds_as_well(peer: Peer) -> None:
    rule = peer.on(INIT_PRODUCER_ID).hold()
    with quick_producer(
        peer, value_serializer=str.encode, linger_ms=0, warmup_topics=["t"]
    ) as producer:
        producer.partitions_for("t")
        late = producer.send("t", "late", partition=0, deadline=0.01)
        assert not error_of(late).was_sent
        rule.cancel()
        peer.release()


@pytest.mark.parametrize("is_committing", [False, True])
def test_a_transaction_with_such_a_record_cannot_be_committed(
    new_peer: PeerFactory, is_committing: bool
) -> None:
    """Whether it fails before the commit or meanwhile; an abort goes, and the next one is clean."""
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    with quick_producer(peer, transactional_id="ledger", linger_ms=LONG_MS) as producer:
        producer.init_transactions(WAIT_S)
        producer.warmup("t")
        producer.begin_transaction()
        rule = peer.on(PRODUCE).hold()
        producer.send("t", b"first", partition=0)

        def let_it_be_late() -> None:
            if is_committing:
                peer.wait_until_held()
                late._miss_deadline(1)
            rule.cancel()
            peer.release()

        releasing = threading.Thread(target=let_it_be_late)
        if is_committing:
            late = producer.send("t", b"late", partition=0)
        else:
            late = producer.send("t", b"late", partition=0, deadline=0.01)
            error_of(late)  # on a busy machine it has not left, and nothing is held
        releasing.start()
        with pytest.raises(KafkaError) as caught:
            producer.commit_transaction(WAIT_S)
        assert not isinstance(caught.value, KafkaTimeoutError)
        releasing.join(WAIT_S)
        producer.abort_transaction(WAIT_S)
        with producer.transaction():
            producer.send("t", b"clean", partition=0)


def test_a_commit_that_meets_a_late_record_can_be_aborted_before_kafka_2_5(
    new_peer: PeerFactory,
) -> None:
    """Nobody would give a new epoch, and none is needed: every record has been answered."""
    peer = new_peer({"t": 1})
    peer.speak(INIT_PRODUCER_ID, 0, 1)
    with quick_producer(peer, transactional_id="ledger", linger_ms=LONG_MS) as producer:
        producer.init_transactions(WAIT_S)
        producer.warmup("t")
        producer.begin_transaction()
        rule = peer.on(PRODUCE).hold()
        late = producer.send("t", b"late", partition=0)

        def let_it_be_late() -> None:
            peer.wait_until_held()
            late._miss_deadline(1)
            rule.cancel()
            peer.release()

        releasing = threading.Thread(target=let_it_be_late)
        releasing.start()
        with pytest.raises(KafkaError, match="by the deadline of its send") as caught:
            producer.commit_transaction(WAIT_S)
        assert caught.value.abortable
        releasing.join(WAIT_S)
        producer.abort_transaction(WAIT_S)
        with producer.transaction():
            producer.send("t", b"clean", partition=0)
        assert peer.values("t", 0) == [b"late", b"clean"]


@pytest.mark.parametrize("deadline", [0, -1, float("nan")])
def test_a_deadline_that_cannot_be_is_refused(peer: Peer, deadline: float) -> None:
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        with pytest.raises(ValueError, match="must be more than 0 seconds"):
            producer.send("t", b"x", deadline=deadline)
        with pytest.raises((TypeError, ValueError)):
            producer.send("t", b"x", deadline="soon")  # type: ignore[arg-type]
