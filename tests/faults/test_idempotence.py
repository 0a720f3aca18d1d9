"""Exactly once and in order, with a broker that checks sequences (contract P-F.5).

P-L.92-95, P-L.98, P-L.105, P-L.107, P-L.110, P-L.111 and P-L.114 (SenderTest), through the public
API; what needs an exact order of answers is in tests/unit/_core/engine/test_sender_epochs.py.
"""

from __future__ import annotations

import random

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod.errors import InvalidRecordError, KafkaError, UndeliveredError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 30.0
CORRUPT_MESSAGE = 2
NOT_LEADER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
OUT_OF_ORDER = 45
DUPLICATE_SEQUENCE = 46
UNKNOWN_PRODUCER_ID = 59
INVALID_RECORD = 87
LAST_EPOCH = 32767


def new_producer(peer: Peer, **config: object) -> KafkaProducer:
    settings = {
        "linger_ms": 0,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 20,
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 20,
        **config,
    }
    return KafkaProducer(bootstrap_servers=peer.bootstrap_servers, **settings)


def send_some(producer: KafkaProducer, count: int, partitions: int = 1) -> list[RecordFuture]:
    """Records of several batches a partition: each takes half of one."""
    return [
        producer.send("t", b"%06d" % number + b"x" * 100, partition=number % partitions)
        for number in range(count)
    ]


def numbers(peer: Peer, partition: int = 0) -> list[int]:
    return [int((value or b"")[:6]) for value in peer.values("t", partition)]


@pytest.mark.parametrize("most_in_flight", [1, 5])
def test_records_are_there_once_and_in_order_whatever_goes_wrong(
    new_peer: PeerFactory, most_in_flight: int
) -> None:
    """P-F.5.3 to P-F.5.10: errors before and after the append, answers and connections lost."""
    peer = new_peer({"t": 3})
    source = random.Random(most_in_flight)
    for _ in range(60):
        rule = peer.on(PRODUCE).after(source.randrange(3))
        match source.randrange(8):
            case 0:
                rule.error(source.choice([CORRUPT_MESSAGE, NOT_LEADER, NOT_ENOUGH_REPLICAS]))
            case 1:
                rule.for_partition("t", source.randrange(3)).error(NOT_ENOUGH_REPLICAS)
            case 2:
                rule.error(REQUEST_TIMED_OUT, append=True)
            case 3:
                rule.error(NOT_ENOUGH_REPLICAS_AFTER_APPEND, append=True)
            case 4:
                rule.close()
            case 5:
                rule.close_after_append(reset=True)
            case 6:
                rule.truncate(source.randrange(4, 30))
            case _:
                rule.close(after_bytes_read=source.randrange(8, 200))
    with new_producer(
        peer, batch_size=250, max_in_flight_requests_per_connection=most_in_flight
    ) as producer:
        futures = send_some(producer, 600, partitions=3)
        producer.flush(BOUND_S)
        for partition in range(3):
            mine = list(range(partition, 600, 3))
            assert numbers(peer, partition) == mine
            assert [futures[number].result(0).offset for number in mine] == list(range(200))
    peer.clear_script()


def test_the_first_batch_goes_alone_and_later_ones_together(peer: Peer) -> None:
    """P-L.92 testIdempotenceWithMultipleInflights: sequences 0, then 1 to 5 before any answer."""
    peer.on(PRODUCE).hold().always()
    with new_producer(peer, batch_size=1) as producer:
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(9)]
        peer.wait_until_held(1)
        peer.release()
        peer.wait_until_held(5)
        assert [batch.header.base_sequence for batch in peer.batches()] == list(range(6))
        peer.clear_script()
        peer.release()
        assert [future.result(BOUND_S).offset for future in futures] == list(range(9))
    assert peer.values("t", 0) == [b"%d" % number for number in range(9)]


def test_after_one_of_several_fails_all_are_resent_in_order(peer: Peer) -> None:
    """P-L.93 testIdempotenceWithMultipleInflightsRetriedInOrder, P-L.98: those behind it were out
    of sequence; no epoch is needed for that."""
    with new_producer(peer, batch_size=1) as producer:
        producer.send("t", b"0", partition=0).result(BOUND_S)
        peer.on(PRODUCE).error(NOT_ENOUGH_REPLICAS)
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 9)]
        assert [future.result(BOUND_S).offset for future in futures] == list(range(1, 9))
        assert producer._engine.counters()["epoch_bumps"] == 0
    assert peer.values("t", 0) == [b"%d" % number for number in range(9)]


def test_a_record_refused_for_good_leaves_no_gap_for_the_others(peer: Peer) -> None:
    """P-L.94 testIdempotenceWithMultipleInflightsWhereFirstFailsFatallyAndSequenceOfFutureBatches
    IsAdjusted, P-F.5.8: the next ones start epoch 1 at 0."""
    with new_producer(peer, batch_size=1) as producer:
        producer.send("t", b"0", partition=0).result(BOUND_S)
        peer.on(PRODUCE).error(INVALID_RECORD)
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 9)]
        assert isinstance(futures[0].exception(BOUND_S), InvalidRecordError)
        assert [future.result(BOUND_S).offset for future in futures[1:]] == list(range(1, 8))
    assert peer.values("t", 0) == [b"%d" % number for number in range(9) if number != 1]
    assert {batch.header.producer_epoch for batch in peer.batches()} == {0, 1}


def test_the_first_record_refused_for_good_does_the_others_no_harm(peer: Peer) -> None:
    """P-F.5.8, P-F.5.3: nor does one that the broker answers too late for; a broker that knows
    nothing of the producer takes any first sequence, and then has the second twice."""
    peer.on(PRODUCE).error(INVALID_RECORD)
    peer.on(PRODUCE).close_after_append()
    with new_producer(peer, batch_size=1) as producer:
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(6)]
        assert isinstance(futures[0].exception(BOUND_S), InvalidRecordError)
        assert [future.result(BOUND_S).offset for future in futures[1:]] == list(range(5))
    assert peer.values("t", 0) == [b"%d" % number for number in range(1, 6)]


def test_a_record_written_in_spite_of_its_error_is_not_doubled_by_a_bad_one_behind_it(
    peer: Peer,
) -> None:
    """P-F.5.8, P-F.5.9: "request timed out" after the append, and an invalid record in the next
    request while both are under way."""
    with new_producer(peer, batch_size=1) as producer:
        producer.send("t", b"0", partition=0).result(BOUND_S)
        peer.on(PRODUCE).error(REQUEST_TIMED_OUT, append=True).hold()
        peer.on(PRODUCE).error(INVALID_RECORD)
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 5)]
        peer.wait_for(PRODUCE, 5, BOUND_S)
        peer.release()
        assert futures[0].result(BOUND_S).offset == 1
        assert isinstance(futures[1].exception(BOUND_S), InvalidRecordError)
        assert [future.result(BOUND_S).offset for future in futures[2:]] == [2, 3]
    assert peer.values("t", 0) == [b"0", b"1", b"3", b"4"]


@pytest.mark.parametrize("code", [OUT_OF_ORDER, UNKNOWN_PRODUCER_ID])
def test_a_broker_that_lost_the_sequences_gets_a_new_epoch(peer: Peer, code: int) -> None:
    """P-L.95 testEpochBumpOnOutOfOrderSequenceForNextBatch, P-L.110, P-L.111, P-L.114: bump and
    retry; nobody hears of it."""
    with new_producer(peer) as producer:
        for number in range(3):
            producer.send("t", b"%d" % number, partition=0).result(BOUND_S)
        peer.on(PRODUCE).error(code).answer(log_start_offset=0)
        assert producer.send("t", b"3", partition=0).result(BOUND_S).offset == 3
        assert producer.send("t", b"4", partition=0).result(BOUND_S).offset == 4
    sequences = [
        (batch.header.producer_epoch, batch.header.base_sequence) for batch in peer.batches()
    ]
    assert sequences == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]


def test_a_duplicate_is_delivered_without_an_offset(peer: Peer) -> None:
    """P-L.107 testCorrectHandlingOfDuplicateSequenceError."""
    with new_producer(peer) as producer:
        peer.on(PRODUCE).error(DUPLICATE_SEQUENCE, append=True)
        assert producer.send("t", b"0", partition=0).result(BOUND_S).offset == -1
        assert producer.send("t", b"1", partition=0).result(BOUND_S).offset == 1


def test_leaders_move_and_hang_and_nothing_is_lost_or_doubled(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-F.5.3: batches hang at the old leader, which has them; the new one gets no more later ones
    than it can remember."""
    cluster = new_peer_cluster(2, {"t": 2})
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        batch_size=1,
        linger_ms=0,
        retry_backoff_ms=10,
        metadata_max_age_ms=200,
    ) as producer:
        for partition in (0, 1):  # both nodes are connected, so that one can tell of the other
            producer.send("t", b"0", partition=partition).result(BOUND_S)
        old = cluster.leader("t", 0)
        held = cluster.node(old).on(PRODUCE).hold().always()
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 4)]
        cluster.wait_until_held(3)
        cluster.move_leader("t", 0, 3 - old)
        cluster.wait_for(METADATA, len(cluster.requests(METADATA)) + 2, BOUND_S)
        futures += [producer.send("t", b"%d" % number, partition=0) for number in range(4, 30)]
        assert futures[4].result(BOUND_S).offset == 5
        assert len(cluster.batches("t", 0)) == 6, "the broker remembers five"
        held.cancel()
        cluster.node(old).close_all(reset=True)
        assert [future.result(BOUND_S).offset for future in futures] == list(range(1, 30))
    assert cluster.values("t", 0) == [b"%d" % number for number in range(30)]


# The last epoch (P-F.5.9).


def test_after_the_last_epoch_the_rest_goes_under_a_new_producer_id(peer: Peer) -> None:
    """P-L.105 testResetOfProducerStateShouldAllowQueuedBatchesToDrain,
    testCloseWithProducerIdReset: close delivers it."""
    peer.on(INIT_PRODUCER_ID).answer(producer_epoch=LAST_EPOCH)
    producer = new_producer(peer, batch_size=1)
    producer.send("t", b"0", partition=0).result(BOUND_S)
    peer.on(INIT_PRODUCER_ID).hold()
    peer.on(PRODUCE).error(INVALID_RECORD)
    futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 5)]
    assert isinstance(futures[0].exception(BOUND_S), InvalidRecordError)
    peer.wait_until_held()
    peer.release()
    producer.close()
    assert [future.result(0).offset for future in futures[1:]] == [1, 2, 3]
    first, *_, last = (batch.header for batch in peer.batches())
    assert (first.producer_epoch, last.producer_epoch) == (LAST_EPOCH, 0)
    assert first.producer_id != last.producer_id
    assert peer.values("t", 0) == [b"0", b"2", b"3", b"4"]


def test_without_a_new_producer_id_a_forced_close_throws_the_rest_away(peer: Peer) -> None:
    """P-L.105 testForceCloseWithProducerIdReset, P-A.9.4."""
    peer.on(INIT_PRODUCER_ID).answer(producer_epoch=LAST_EPOCH)
    producer = new_producer(peer, batch_size=1)
    producer.send("t", b"0", partition=0).result(BOUND_S)
    peer.on(INIT_PRODUCER_ID).silence()
    peer.on(PRODUCE).error(INVALID_RECORD)
    futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 5)]
    assert isinstance(futures[0].exception(BOUND_S), InvalidRecordError)
    peer.wait_for(INIT_PRODUCER_ID, 2, BOUND_S)
    with pytest.raises(UndeliveredError):
        producer.close(0.2)
    for future in futures[1:]:
        with pytest.raises(KafkaError, match="closed forcefully"):
            future.result(0)
    assert peer.values("t", 0) == [b"0"]


def test_close_ends_although_no_new_producer_id_ever_comes(peer: Peer) -> None:
    """P-L.105, P-A.9.3: as soon as the last record is out of time there is nothing to wait for."""
    peer.on(INIT_PRODUCER_ID).answer(producer_epoch=LAST_EPOCH)
    producer = new_producer(peer, batch_size=1, delivery_timeout_ms=3_000, request_timeout_ms=3_000)
    producer.send("t", b"0", partition=0).result(BOUND_S)
    peer.on(INIT_PRODUCER_ID).silence().always()
    peer.on(PRODUCE).error(INVALID_RECORD)
    futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 4)]
    assert isinstance(futures[0].exception(BOUND_S), InvalidRecordError)
    producer.close(BOUND_S)
    assert all(future.failed() for future in futures)
    peer.clear_script()
