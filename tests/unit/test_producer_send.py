"""send, its future and its callbacks as users see them (contract P-A.3): against a peer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fastprod import KafkaProducer, ProducerRecord, RecordMetadata
from fastprod.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
    TopicAuthorizationError,
)
from fastprod.interceptors import ProducerInterceptor
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.records import failed_metadata
from fastprod.serializers import StringSerializer
from mock_cluster import MockCluster
from support.engine.quick_producer import WAIT_S, quick_producer
from support.oracle import murmur2 as oracle
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

NOT_LEADER = 6
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_RECORD = 87
LONG_MS = 60_000
SOON_S = 15.0
"""Bound of what nothing has to be waited for."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Until it holds, at most WAIT_S."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def pass_wall_ms(count: int) -> int:
    """Until the wall clock has gone on by so much; its time then."""
    until_ms = wall_ms() + count + 1  # a part of the first one is over
    wait_until(lambda: wall_ms() >= until_ms)
    return wall_ms()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


class Witness(ProducerInterceptor):
    """Writes down who is told what of a producer's records, and in which thread."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.threads: list[threading.Thread] = []

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, exception: BaseException | None
    ) -> None:
        self.told.append(("interceptor", metadata, exception))

    def callback(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        self.told.append(("callback", metadata, error))
        self.threads.append(threading.current_thread())


def errors_counted(producer: KafkaProducer) -> float:
    return float(producer.metrics()["producer-metrics"]["record-error-total"])


# Construction (P-A.1).


def test_construction_waits_for_no_broker_and_asks_for_a_producer_id(peer: Peer) -> None:
    """P-A.1.5: one daemon thread with Kafka's name; the producer id comes without a record."""
    peer.on(API_VERSIONS).hold().always()
    with quick_producer(peer, client_id="c") as producer:
        assert not producer.closed
        daemons = {thread.name: thread.daemon for thread in threading.enumerate()}
        assert daemons["kafka-producer-network-thread | c"]
        assert peer.requests(INIT_PRODUCER_ID) == []
        peer.wait_until_held()
        peer.clear_script()
        peer.release()
        peer.wait_for(INIT_PRODUCER_ID)
        assert peer.requests(PRODUCE) == []


def test_a_construction_that_fails_late_closes_what_was_made(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-A.1.3, P-L.7: and says what failed; errors on the way are of no interest."""

    class Closing(ProducerInterceptor):
        closed_count = 0

        def close(self) -> None:
            Closing.closed_count += 1
            raise RuntimeError("of no interest")

    def fail(*args: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("fastprod.producer.bootstrap_nodes", fail)
    with pytest.raises(KafkaError, match="Failed to construct kafka producer") as caught:
        quick_producer(peer, interceptor_classes=[Closing])
    assert str(caught.value.__cause__) == "no luck"
    assert Closing.closed_count == 1


def test_without_idempotence_nobody_asks_for_a_producer_id(peer: Peer) -> None:
    """P-B.7, P-F.5.13: acks=1 alone turns it off."""
    with quick_producer(peer, acks=1) as producer:
        producer.send("t", b"v", partition=0).result(WAIT_S)
    (batch,) = peer.batches()
    header = batch.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert peer.requests(INIT_PRODUCER_ID) == []


# The steps of send (P-A.3).


def test_the_steps_of_send_come_in_order(peer: Peer) -> None:
    """P-A.3.1, P-A.3.4, P-A.3.5, P-A.3.6, P-C.3.3, P-L.19: interceptors, key, value, partition;
    headers may be added until then, and not after."""
    steps: list[object] = []

    class Tap(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            steps.append("interceptor")
            return record

    def serialize(name: str) -> Callable[[str, Any, Any], bytes]:
        def one(topic: str, headers: Any, data: Any) -> bytes:
            steps.append((name, topic, data))
            headers.add(name, b"")
            return f"{name} {data}".encode()

        return one

    def partition(
        topic: str, key: Any, key_bytes: bytes, value: Any, value_bytes: bytes, cluster: Any
    ) -> int:
        steps.append((key, key_bytes, value, value_bytes))
        return 2

    record = ProducerRecord("t", "v", "k", headers=[("mine", b"0")])
    with quick_producer(
        peer,
        interceptor_classes=[Tap()],
        key_serializer=serialize("key"),
        value_serializer=serialize("value"),
        partitioner_class=partition,
    ) as producer:
        metadata = producer.send(record).result(WAIT_S)
    assert steps == [
        "interceptor",
        ("key", "t", "k"),
        ("value", "t", "v"),
        ("k", b"key k", "v", b"value v"),
    ]
    assert metadata.partition == 2
    (logged,) = peer.log("t", 2)
    assert logged.headers == (("mine", b"0"), ("key", b""), ("value", b""))
    with pytest.raises(IllegalStateError, match="late"):
        record.headers.add("late", b"")


def test_a_failing_interceptor_never_fails_a_send(peer: Peer) -> None:
    """P-A.3.1: the record goes on as it was."""

    class Broken(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("broken")

    with quick_producer(peer, interceptor_classes=[Broken]) as producer:
        assert producer.send("t", b"v", partition=0).result(WAIT_S).offset == 0


def test_keys_choose_partitions_by_their_bytes(new_peer: PeerFactory) -> None:
    """P-A.3.5, P-C.3.1, P-C.3.2: the serialized key, an empty one too; a hash below zero loses its
    sign bit and nothing else. One by one and in bulk."""
    peer = new_peer({"t": 5})
    keys = ["", "21", "foobar", "abcd", "user-42", "key", *map(str, range(30))]
    hashes = [oracle.unsigned(key.encode()) for key in keys]
    assert any(each & 0x80000000 for each in hashes)
    wanted = [(each & 0x7FFFFFFF) % 5 for each in hashes]
    with quick_producer(peer, key_serializer=StringSerializer) as producer:
        futures = [producer.send("t", b"one", key=key) for key in keys]
        assert [future.result(WAIT_S).partition for future in futures] == wanted
        assert producer.send("t", b"one", partition=4).result(WAIT_S).partition == 4
    with quick_producer(peer) as producer:
        bulk = producer.send_many("t", [b"many"] * len(keys), keys=[key.encode() for key in keys])
        bulk.result(WAIT_S)
    for partition in range(5):
        logged = [each.key for each in peer.log("t", partition) if each.value == b"many"]
        expected = [key.encode() for key, at in zip(keys, wanted, strict=True) if at == partition]
        assert logged == expected


def test_keys_can_be_ignored_and_records_without_one_are_never_hashed(
    new_peer: PeerFactory,
) -> None:
    """P-C.3.1: keyless records of one batch stay together."""
    peer = new_peer({"t": 20})
    with quick_producer(peer, linger_ms=LONG_MS, partitioner_ignore_keys=True) as producer:
        futures = [producer.send("t", b"v", key=b"%d" % each) for each in range(20)]
        futures += [producer.send("t", b"v") for _ in range(20)]
        producer.flush(WAIT_S)
        assert len({future.result(WAIT_S).partition for future in futures}) == 1


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_upper_bound_of_a_record_decides_whether_it_is_too_large(
    peer: Peer, codec: str
) -> None:
    """P-A.3.7, P-E.7.3: bytes before compression; 61 + 21 + the sizes' own bytes around the
    value.
    """
    limit = 1_000
    fitting = limit - (61 + 21 + 1 + 2 + 1)
    with quick_producer(peer, max_request_size=limit, compression_type=codec) as producer:
        producer.send("t", bytes(fitting), partition=0).result(WAIT_S)
        error = producer.send("t", bytes(fitting + 1), partition=0).exception(0)
        assert isinstance(error, RecordTooLargeError)
        assert f"{limit + 1:,} bytes" in str(error)
        assert "max_request_size" in str(error)
    assert len(peer.batches()) == 1
    with quick_producer(peer, buffer_memory=65_536, max_request_size=10_000_000) as producer:
        error = producer.send("t", bytes(65_536), partition=0).exception(0)
        assert isinstance(error, RecordTooLargeError)
        assert "buffer_memory" in str(error)
    assert len(peer.batches()) == 1


def test_a_record_without_timestamp_has_that_of_the_call_and_its_wait_for_metadata(
    peer: Peer,
) -> None:
    """P-A.3.8."""
    seen: list[int] = []

    def release_later() -> None:
        peer.wait_until_held()
        seen.append(pass_wall_ms(1_000))
        peer.clear_script()
        peer.release()

    with quick_producer(peer) as producer:
        peer.on(METADATA).when(lambda request: bool(request.message.topics)).hold().always()
        releasing = in_thread(release_later)
        producer.send("t", b"v", partition=0).result(WAIT_S)
        ended_ms = wall_ms()
        releasing.join()
    (logged,) = peer.log("t", 0)
    # Without the wait it would be 1 s less; a moment may pass between two looks at the clock.
    assert seen[0] - 500 <= logged.timestamp <= ended_ms


def test_the_wait_for_memory_is_in_no_timestamp_and_in_no_batchs_age(peer: Peer) -> None:
    """P-A.3.8, P-A.3.9, P-D.2.3: the record has the time of the call, its batch that of its
    creation.
    """
    seen: list[int] = []

    with quick_producer(peer, buffer_memory=65_536, batch_size=40_000) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        producer.send("t", bytes(40_000), partition=0)
        peer.wait_until_held()

        def release_later() -> None:
            wait_until(lambda: producer._engine.counters()["waiting_threads"] == 1)
            seen.append(pass_wall_ms(1_000))
            peer.release()

        releasing = in_thread(release_later)
        entered_ms = wall_ms()
        producer.send("t", bytes(40_000), partition=1).result(WAIT_S)
        releasing.join()
        figures = producer.metrics()["producer-metrics"]
        assert figures["bufferpool-wait-time-ns-total"] >= 1_000_000_000
        assert figures["record-queue-time-max"] < seen[0] - entered_ms
    (logged,) = peer.log("t", 1)
    assert entered_ms - 1 <= logged.timestamp < seen[0]


def test_what_metadata_took_of_max_block_ms_is_not_there_for_memory(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-A.3.3, P-A.3.9: two nodes, because answers of one connection come in order."""
    cluster = new_peer_cluster(2, {"t": 2, "u": 1})
    with quick_producer(
        cluster, buffer_memory=65_536, batch_size=65_536, max_block_ms=2_000
    ) as producer:
        producer.warmup("t", timeout=WAIT_S)
        cluster.leader_node("t", 0).on(PRODUCE).hold().once()
        producer.send("t", bytes(60_000), partition=0)
        cluster.wait_until_held()
        cluster.on(METADATA).when(lambda request: bool(request.message.topics)).delay(0.3).once()
        error = producer.send("u", bytes(60_000)).exception(WAIT_S)
        cluster.release()
        assert isinstance(error, BufferExhaustedError)
        assert vars(error)["waited_ms"] <= 2_000 - 300


def settled_loops(producer: KafkaProducer) -> int:
    """How often the I/O thread went round, once it sleeps."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        before = int(producer._engine.counters()["loops"])
        time.sleep(0.02)
        if producer._engine.counters()["loops"] == before:
            return before
    raise AssertionError("the I/O thread does not sleep")


def test_a_new_batch_wakes_the_io_thread(peer: Peer) -> None:
    """P-A.3.11: nobody waits for a result here, which would wake it too."""
    with quick_producer(peer, linger_ms=0) as producer:
        producer.warmup("t")
        for number in range(50):
            producer.send("t", b"%d" % number, partition=0)
            peer.wait_for_log("t", 0, number + 1, SOON_S)


@pytest.mark.parametrize("linger_ms", [0, 20, None])
def test_a_new_batch_behind_one_under_way_wakes_the_io_thread(
    peer: Peer, linger_ms: int | None
) -> None:
    """P-A.3.11, P-D.5.2: the broker takes its time for the first, and the second is not held up by
    that for longer than its linger; None is the adaptive one."""
    with quick_producer(peer, linger_ms=linger_ms, request_timeout_ms=LONG_MS) as producer:
        producer.send("t", b"0", partition=0).result(WAIT_S)
        peer.on(PRODUCE).hold().once()
        for number in range(1, 5):
            producer.send("t", b"%d" % number, partition=0)
            peer.wait_for_log("t", 0, number + 1, SOON_S)
        assert peer.held_count == 1
        peer.release()


def test_a_batch_that_is_full_wakes_the_io_thread_and_one_more_record_does_not(
    peer: Peer,
) -> None:
    """P-A.3.11, P-D.2.6."""
    with quick_producer(peer, linger_ms=LONG_MS, batch_size=1_000) as producer:
        producer.warmup("t")
        producer.send("t", bytes(10), partition=1)
        loops = settled_loops(producer)
        for _ in range(40):
            producer.send("t", b"", partition=1)
            time.sleep(0.001)
        assert settled_loops(producer) - loops < 10
        assert peer.log("t", 1) == []
        producer.send("t", bytes(900), partition=1)
        assert len(peer.wait_for_log("t", 1, 41, SOON_S)) == 41


def test_no_wake_up_is_lost_while_the_io_thread_goes_to_sleep(mock_cluster: MockCluster) -> None:
    """P-A.3.11: each record is sent a moment after the answer to the one before has come, another
    moment each time, while the I/O thread is about to sleep for a minute. Nobody waits, which
    would wake it."""
    with quick_producer(mock_cluster.bootstrap_servers) as producer:
        producer.warmup("t")
        # Thousands of slots to look at make the way to its sleep longer than that of a send.
        producer._engine.close_connection(4_000)
        for number in range(4_000):
            future = producer.send("t", b"v", partition=0)
            deadline_s = time.monotonic() + SOON_S
            while not future.done():
                assert time.monotonic() < deadline_s, "the I/O thread sleeps through it"
            for _ in range(number % 400):
                pass


# What send raises, and what the future tells (P-A.3.12).


def test_an_error_of_the_api_comes_by_the_future_and_the_callback_at_once(peer: Peer) -> None:
    """P-A.3.12 (first row), P-A.2.5, P-L.20, P-L.21: in the thread that sends, callback before
    interceptors, metadata with what is known."""
    witness = Witness()
    with quick_producer(peer, interceptor_classes=[witness], max_request_size=1_000) as producer:
        for partition in (1, None):
            witness.told.clear()
            future = producer.send(
                "t", bytes(2_000), partition=partition, on_delivery=witness.callback
            )
            assert future.done()
            error = future.exception(0)
            assert isinstance(error, RecordTooLargeError)
            assert [each[:2] for each in witness.told] == [
                ("callback", failed_metadata("t", partition)),
                ("interceptor", failed_metadata("t", partition)),
            ]
            assert {str(told) for _, _, told in witness.told} == {str(error)}
        assert set(witness.threads) == {threading.current_thread()}
        assert errors_counted(producer) == 2


def refuse(data: Any) -> Any:
    raise TypeError("not like this")


@pytest.mark.parametrize(
    ("settings", "kind", "count"),
    [
        ({"value_serializer": refuse}, SerializationError, 1),
        ({"partitioner_class": lambda *arguments: -1}, ValueError, 0),
        ({"partitioner_class": lambda *arguments: 1 // 0}, ZeroDivisionError, 0),
    ],
)
def test_other_errors_are_raised_and_only_interceptors_are_told(
    peer: Peer, settings: dict[str, Any], kind: type[Exception], count: int
) -> None:
    """P-A.3.12 (third and fourth row), P-L.22: errors of Kafka's count as record errors."""
    witness = Witness()
    with quick_producer(peer, interceptor_classes=[witness], **settings) as producer:
        with pytest.raises(kind) as caught:
            producer.send("t", b"v", on_delivery=witness.callback)
        assert witness.told == [("interceptor", failed_metadata("t"), caught.value)]
        assert errors_counted(producer) == count
    assert peer.batches() == []


def test_a_closed_producer_raises_and_only_interceptors_are_told(peer: Peer) -> None:
    """P-A.3.2, P-A.3.12 (fourth row)."""
    witness = Witness()
    producer = quick_producer(peer, interceptor_classes=[witness])
    producer.close()
    with pytest.raises(ProducerClosedError) as caught:
        producer.send("t", b"v", on_delivery=witness.callback)
    assert isinstance(caught.value, IllegalStateError)
    assert [told[0] for told in witness.told] == ["interceptor"]


# Futures and callbacks (P-A.3.13 to P-A.3.16).


def test_a_future_is_waited_for_in_vain_and_then_told(peer: Peer) -> None:
    """P-A.3.13, P-L.35 RecordSendTest.testTimeout: 5 ms are too short; then base 45, and index
    5.
    """
    peer.set_offsets("t", 0, next_offset=45)
    with quick_producer(peer, linger_ms=LONG_MS) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        futures = [producer.send("t", b"v", partition=0) for _ in range(6)]
        with pytest.raises(TimeoutError):
            futures[5].result(0.005)
        peer.wait_until_held()
        assert not futures[5].done()
        assert futures[5].cancel() is False
        peer.release()
        assert futures[5].result(WAIT_S).offset == 50
        peer.on(PRODUCE).error(TOPIC_AUTHORIZATION_FAILED).once()
        refused = producer.send("t", b"v", partition=0)
        with pytest.raises(TopicAuthorizationError):
            refused.result(WAIT_S)


def test_a_future_is_done_after_the_callbacks_of_its_batch(peer: Peer) -> None:
    """P-A.3.13, P-D.10.4: also the one without a callback of its own; flush waits for them too."""
    entered, may_end = threading.Event(), threading.Event()

    def slow(metadata: object, error: object) -> None:
        entered.set()
        may_end.wait(WAIT_S)

    with quick_producer(peer, linger_ms=LONG_MS) as producer:
        producer.warmup("t")
        watched = producer.send("t", b"1", partition=0, on_delivery=slow)
        plain = producer.send("t", b"2", partition=0)
        flushing = in_thread(producer.flush)
        assert entered.wait(WAIT_S)
        assert not watched.done()
        assert not plain.done()
        assert flushing.is_alive()
        may_end.set()
        flushing.join(WAIT_S)
        assert watched.succeeded()
        assert plain.succeeded()


def test_callbacks_come_in_the_order_of_sending_whatever_is_retried(peer: Peer) -> None:
    """P-A.3.14: within a partition."""
    called: list[int] = []
    with quick_producer(peer, batch_size=200, linger_ms=0) as producer:
        producer.send("t", b"first", partition=0).result(WAIT_S)
        for at in (1, 2, 4):
            peer.on(PRODUCE).after(at).error(NOT_LEADER).once()

        def note(number: int, metadata: object, error: object) -> None:
            called.append(number)

        for number in range(60):
            producer.send(
                "t",
                b"%d" % number,
                partition=0,
                on_delivery=partial(note, number),
            )
        producer.flush(WAIT_S)
    assert called == list(range(60))
    assert peer.values("t", 0)[1:] == [b"%d" % number for number in range(60)]


def test_a_callback_that_raises_is_logged_and_the_others_run(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    """P-A.3.15, P-A.3.16: on the delivery thread; each record's interceptors before its
    callback.
    """
    witness = Witness()

    def broken(metadata: object, error: object) -> None:
        raise RuntimeError("broken callback")

    with quick_producer(
        peer, client_id="c", interceptor_classes=[witness], linger_ms=LONG_MS
    ) as producer:
        producer.send("t", b"1", partition=0, on_delivery=broken)
        producer.send("t", b"2", partition=0, on_delivery=witness.callback)
        with caplog.at_level(logging.ERROR, "fastprod.delivery"):
            producer.flush(WAIT_S)
    assert "broken callback" in caplog.text
    assert [(told[0], told[1].offset) for told in witness.told] == [
        ("interceptor", 0),
        ("interceptor", 1),
        ("callback", 1),
    ]
    assert [thread.name for thread in witness.threads] == ["kafka-producer-delivery | c"]


def test_without_idempotence_a_failed_batch_concerns_nobody_else(peer: Peer) -> None:
    """P-F.4.8."""
    with quick_producer(peer, enable_idempotence=False, linger_ms=LONG_MS) as producer:
        peer.on(PRODUCE).error(INVALID_RECORD).for_partition("t", 0).once()
        sent = []
        for _ in range(2):
            sent += [producer.send("t", b"v", partition=each) for each in (0, 1)]
            producer.flush(WAIT_S)
        assert [future.failed() for future in sent] == [True, False, False, False]
        assert [future.result(0).offset for future in sent[1:]] == [0, 0, 1]
