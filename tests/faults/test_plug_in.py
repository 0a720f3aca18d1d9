"""Interceptors, serializers and partitioners of users: when they misbehave, and what they see."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fastprod import (
    Headers,
    KafkaProducer,
    Partitioner,
    ProducerInterceptor,
    ProducerRecord,
    RecordFuture,
    RecordMetadata,
)
from fastprod.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    NotEnoughReplicasError,
    ProducerClosedError,
    RecordDeadlineError,
    RecordTooLargeError,
    SerializationError,
)
from fastprod.protocol.api_keys import METADATA, PRODUCE
from fastprod.serializers import StringSerializer
from support.broker.sockets import until
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

NOT_ENOUGH_REPLICAS = 19
TOPIC_AUTHORIZATION_FAILED = 29

Seen = tuple[str, int, int, str]


class FullLog(logging.Handler):
    """A handler of the application's that raises, and does not leave that to `handleError`."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise OSError(f"no room for {record.getMessage()!r}")


@pytest.fixture
def full_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever the producer logs, its logger raises."""
    handler, logger = FullLog(), logging.getLogger("fastprod")
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


class SentLog(logging.Handler):
    """A handler of the application's that sends what is logged, by the producer that logs it, and
    does with the future whatever `then` does."""

    def __init__(self, producer: KafkaProducer, then: Callable[[RecordFuture], object]) -> None:
        super().__init__()
        self.futures: list[Any] = []
        self._producer = producer
        self._then = then
        self._is_sending = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(self._is_sending, "now"):
            self._is_sending.now = True
            future = self._producer.send("log", record.getMessage().encode())
            self._then(future)
            self.futures.append(future)
            del self._is_sending.now


class Watch(ProducerInterceptor):
    """Notes who was told what, and in which thread."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.threads: set[str] = set()
        self.told = threading.Semaphore(0)

    def note(self, who: str, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        assert metadata is not None
        self.seen.append((who, metadata.partition, metadata.offset, type(error).__name__))
        self.threads.add(threading.current_thread().name)
        self.told.release()

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, exception: BaseException | None
    ) -> None:
        self.note("interceptor", metadata, exception)

    def callback(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.note("callback", metadata, error)


class Fixed(Partitioner):
    """Says what it was told to say."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def partition(self, *arguments: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def error_total(producer: KafkaProducer) -> float:
    return float(producer.metrics()["producer-metrics"]["record-error-total"])


def test_what_fails_in_send_is_told_there_and_what_fails_later_elsewhere(peer: Peer) -> None:
    """P-A.3.12 (first row), P-A.3.15, P-A.3.16, P-A.2.5, P-C.1.2, P-C.1.3, P-L.37: the callback
    first, in the thread that sends; else the interceptor first, on the delivery thread. All count
    as errors."""
    watch = Watch()
    here = threading.current_thread().name
    with quick_producer(
        peer, interceptor_classes=[watch], max_block_ms=1_500, max_request_size=10_000
    ) as producer:
        producer.warmup("t", timeout=WAIT_S)
        for topic, value, partition, kind in (
            ("t", bytes(20_000), 2, RecordTooLargeError),
            ("x" * 300, b"x", None, InvalidTopicError),
            ("nowhere", b"x", None, MetadataTimeoutError),
            ("t", b"x", 9, MetadataTimeoutError),
        ):
            before = error_total(producer)
            future = producer.send(topic, value, partition=partition, on_delivery=watch.callback)
            assert isinstance(future.exception(0), kind)
            where = -1 if partition is None else partition
            assert watch.seen == [
                ("callback", where, -1, kind.__name__),
                ("interceptor", where, -1, kind.__name__),
            ]
            assert watch.threads == {here}
            assert error_total(producer) == before + 1
            watch.seen.clear()
        watch.threads.clear()
        peer.on(PRODUCE).error(TOPIC_AUTHORIZATION_FAILED)
        for expected in ("TopicAuthorizationError", "NoneType"):
            producer.send("t", b"x", partition=1, on_delivery=watch.callback)
            for _ in range(2):
                assert watch.told.acquire(timeout=WAIT_S)
            producer.flush(WAIT_S)
            offset = -1 if expected != "NoneType" else 0
            assert watch.seen == [
                ("interceptor", 1, offset, expected),
                ("callback", 1, offset, expected),
            ]
            watch.seen.clear()
        assert here not in watch.threads


@pytest.mark.parametrize(
    ("settings", "value", "kind", "count"),
    [
        ({"value_serializer": StringSerializer()}, 5, SerializationError, 1),
        ({"value_serializer": lambda *_: 1 // 0}, b"x", ZeroDivisionError, 0),
        ({"partitioner_class": Fixed(-1)}, b"x", ValueError, 0),
        ({"partitioner_class": Fixed(7)}, b"x", ValueError, 0),
        ({"partitioner_class": Fixed(1 << 40)}, b"x", (ValueError, TypeError), 0),
        ({"partitioner_class": Fixed(1.5)}, b"x", (ValueError, TypeError), 0),
        ({"partitioner_class": Fixed(LookupError("no"))}, b"x", LookupError, 0),
    ],
)
def test_what_a_plug_in_does_wrong_is_raised_and_the_producer_goes_on(
    peer: Peer, settings: dict[str, Any], value: Any, kind: Any, count: int
) -> None:
    """P-A.3.12 (third and fourth row), P-L.22: interceptors are told, the callback is not."""
    watch = Watch()
    with quick_producer(peer, interceptor_classes=[watch], **settings) as producer:
        before = error_total(producer)
        with pytest.raises(kind):
            producer.send("t", value, on_delivery=watch.callback)
        assert [each[0] for each in watch.seen] == ["interceptor"]
        assert error_total(producer) == before + count
        producer.flush(WAIT_S)
        assert peer.requests(PRODUCE) == []


def test_a_timestamp_is_that_of_the_call_and_its_wait_also_with_plug_ins(peer: Peer) -> None:
    """P-A.3.8: the wait for metadata counts once; the record is never from the future."""
    peer.on(METADATA).delay(0.6).always()
    with quick_producer(peer, interceptor_classes=[Watch()]) as producer:
        began_ms = time.time_ns() // 1_000_000
        future = producer.send("t", b"x")
        ended_ms = time.time_ns() // 1_000_000
        assert began_ms + 500 <= future.result(WAIT_S).timestamp <= ended_ms


def test_a_callback_that_cannot_be_called_is_refused_with_interceptors_too(peer: Peer) -> None:
    """P-A.3.12 (fourth row)."""
    for settings in ({}, {"interceptor_classes": [Watch()]}):
        with (
            quick_producer(peer, **settings) as producer,
            pytest.raises(TypeError, match="on_delivery must be callable, not str"),
        ):
            producer.send("t", b"x", on_delivery="f")  # type: ignore[arg-type]
    assert peer.requests(PRODUCE) == []


def test_with_plug_ins_a_full_buffer_and_try_send_are_what_they_are_without(peer: Peer) -> None:
    """P-A.3.9, P-A.3.12 (first row)."""
    peer.on(PRODUCE).hold().always()
    watch = Watch()
    with quick_producer(
        peer,
        interceptor_classes=[watch],
        value_serializer=StringSerializer(),
        buffer_memory=100_000,
        max_block_ms=200,
        linger_ms=0,
    ) as producer:
        assert isinstance(producer.try_send("t", "x").exception(0), MetadataTimeoutError)
        producer.warmup("t", timeout=WAIT_S)
        while (future := producer.try_send("t", "x" * 9_000, partition=0)).done() is False:
            pass
        error = future.exception(0)
        assert isinstance(error, BufferExhaustedError)
        assert error.waited_ms == 0
        waited = producer.send("t", "x" * 9_000, partition=0).exception(0)
        assert isinstance(waited, BufferExhaustedError)
        assert 0 < waited.waited_ms <= 200
        assert watch.seen[-1] == ("interceptor", 0, -1, "BufferExhaustedError")
        peer.clear_script()
        peer.release()
        producer.flush(WAIT_S)


def by_length(topic: str, headers: Any, data: Any) -> bytes:
    headers.add("length", b"%d" % len(data))
    kept.append(headers)
    return bytes(data)


kept: list[Headers] = []
"""What `by_length` was given."""


@pytest.mark.parametrize(
    ("settings", "added"),
    [
        ({"value_serializer": lambda value: value}, ()),
        ({"value_serializer": by_length, "key_serializer": str.encode}, (("length", b"3"),)),
    ],
)
def test_no_object_is_made_for_a_record_that_only_serializers_see(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], added: Any
) -> None:
    """P-A.2.2, P-A.3.4, P-A.3.6: it cost three times as much as all else of the send."""
    mine = Headers([("a", b"1")])
    key: Any = "k" if "key_serializer" in settings else None
    with quick_producer(peer, **settings) as producer:
        producer.warmup("t", timeout=WAIT_S)
        monkeypatch.setattr("fastprod.producer.as_record", None)
        assert producer.send("t", b"one", key, mine, partition=1).result(WAIT_S).partition == 1
        assert producer.try_send("t", b"two", key, {}, partition=1, timestamp_ms=5).result(WAIT_S)
        assert (
            len(producer.send_many("t", [b"3"], [key], partitions=[1]).result(WAIT_S).ranges) == 1
        )
    assert [each.value for each in peer.log("t", 1)] == [b"one", b"two", b"3"]
    assert [each.key for each in peer.log("t", 1)] == [key and key.encode()] * 3
    assert peer.log("t", 1)[0].headers == (("a", b"1"), *added)
    assert mine == Headers([("a", b"1")])
    if added:
        with pytest.raises(IllegalStateError, match="was sent"):
            kept[-1].add("late", b"")


def test_what_serializers_do_wrong_is_told_alike_whether_the_topic_is_known(peer: Peer) -> None:
    """P-A.3.2, P-A.3.12 (third and fourth row)."""
    seen: list[Any] = []

    def serialize(value: Any) -> Any:
        seen.append(value)
        return value.encode()

    wrong: list[tuple[dict[str, Any], Any]] = [
        ({"value": b"x"}, SerializationError),
        ({"value": "x", "partition": "1"}, TypeError),
        ({"value": "x", "partition": True}, TypeError),
        ({"value": "x", "partition": -1}, ValueError),
        ({"value": "x", "timestamp_ms": -1}, ValueError),
        ({"value": "x", "headers": [("a", "b")]}, TypeError),
        ({"value": "x", "on_delivery": "f"}, TypeError),
    ]
    producer = quick_producer(peer, value_serializer=serialize)
    for _ in range(2):
        before = error_total(producer)
        for arguments, kind in wrong:
            with pytest.raises(kind):
                producer.send("t", **arguments)
        assert error_total(producer) == before + 1
        producer.warmup("t", timeout=WAIT_S)
    producer.close()
    seen.clear()
    with pytest.raises(ProducerClosedError):
        producer.send("t", "x")
    assert seen == []
    assert peer.requests(PRODUCE) == []


def test_plug_ins_see_their_record_once_however_often_it_is_sent(peer: Peer) -> None:
    """P-C.1.2, P-C.2.1, P-C.3.3, P-A.3.14: retries are none of their business."""
    watch = Watch()
    calls: list[Any] = []

    def serialize(value: Any) -> bytes:
        calls.append(value)
        return b"%d" % value

    def change(record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord("t", record.value, partition=2, headers=record.headers)

    watch.on_send = change  # type: ignore[method-assign]
    peer.on(PRODUCE).error(NOT_ENOUGH_REPLICAS).times(3)
    settings: Mapping[str, Any] = {"interceptor_classes": [watch], "value_serializer": serialize}
    with quick_producer(peer, **settings) as producer:
        futures = [producer.send("elsewhere", number) for number in range(20)]
        assert [future.result(WAIT_S).offset for future in futures] == list(range(20))
    assert calls == list(range(20))
    assert watch.seen == [("interceptor", 2, number, "NoneType") for number in range(20)]
    assert peer.values("t", 2) == [b"%d" % number for number in range(20)]


def test_when_retries_end_interceptors_and_callbacks_have_the_same_error(peer: Peer) -> None:
    """P-A.3.12, P-F.4.4."""
    watch = Watch()
    errors: list[KafkaError | None] = []
    peer.on(PRODUCE).error(NOT_ENOUGH_REPLICAS).times(2)
    with quick_producer(peer, acks=1, retries=1, interceptor_classes=[watch]) as producer:
        future = producer.send(
            "t", b"x", partition=0, on_delivery=lambda _, error: errors.append(error)
        )
        found = future.exception(WAIT_S)
        assert isinstance(found, NotEnoughReplicasError)
    assert watch.seen == [("interceptor", 0, -1, "NotEnoughReplicasError")]
    assert [str(error) for error in errors] == [str(found)]


@pytest.mark.usefixtures("full_log")
def test_a_log_handler_that_raises_does_not_end_the_thread_of_the_connections(peer: Peer) -> None:
    with quick_producer(peer) as producer:
        assert producer.send("t", b"first", partition=0).result(WAIT_S).offset == 0
        peer.on(PRODUCE).close().once()  # which is logged
        assert producer.send("t", b"second", partition=0).result(WAIT_S).offset == 1


WAITS: Mapping[str, Callable[[KafkaProducer, RecordFuture], object]] = {
    "send": lambda producer, future: None,
    "flush": lambda producer, future: producer.flush(),
    "result": lambda producer, future: future.result(),
    "purge": lambda producer, future: producer.purge(),
    "warmup": lambda producer, future: producer.warmup("log"),
}


@pytest.mark.parametrize("call", WAITS)
def test_a_log_handler_that_sends_and_waits_does_not_hold_up_the_connections(
    new_peer: PeerFactory, call: str
) -> None:
    """Its topic is not known, and what it sends needs the connection whose end is logged."""
    peer = new_peer({"t": 1, "log": 1})
    logger = logging.getLogger("fastprod")
    with quick_producer(peer, max_block_ms=600_000, delivery_timeout_ms=600_000) as producer:
        assert producer.send("t", b"first", partition=0).result(WAIT_S).offset == 0
        handler = SentLog(producer, lambda future: WAITS[call](producer, future))
        logger.addHandler(handler)
        try:
            peer.on(PRODUCE).close().once()  # which is logged
            assert producer.send("t", b"second", partition=0).result(WAIT_S).offset == 1
            until(lambda: handler.futures)
        finally:
            logger.removeHandler(handler)
        if call != "purge":
            assert handler.futures[0].result(WAIT_S).topic == "log"


def test_what_waits_in_send_with_a_handlers_lock_does_not_hold_up_the_connections(
    new_peer: PeerFactory,
) -> None:
    """As when a handler sends the application's own first message: what the producer logs
    meanwhile waits for that handler's lock."""
    peer = new_peer({"t": 1})
    logger, handler = logging.getLogger("fastprod"), logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    try:
        peer.on(METADATA).close().once()  # which is logged
        with quick_producer(peer, max_block_ms=600_000) as producer:
            handler.acquire()
            try:
                future = producer.send("t", b"first")
            finally:
                handler.release()
            assert future.result(WAIT_S).offset == 0
    finally:
        logger.removeHandler(handler)
    assert "closed the connection" in handler.stream.getvalue()


def test_close_with_a_handlers_lock_ends_as_logging_does_at_exit(peer: Peer) -> None:
    """`logging.shutdown` closes a handler with its lock, and the handler its producer."""
    logger, handler = logging.getLogger("fastprod"), logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    try:
        producer = quick_producer(peer)
        assert producer.send("t", b"first", partition=0).result(WAIT_S).offset == 0
        handler.acquire()
        try:
            peer.on(PRODUCE).close().once()  # which is logged
            assert producer.send("t", b"second", partition=0).result(WAIT_S).offset == 1
            producer.close()
        finally:
            handler.release()
    finally:
        logger.removeHandler(handler)


@pytest.mark.usefixtures("full_log")
def test_a_log_handler_that_raises_does_not_end_the_thread_of_the_callbacks(peer: Peer) -> None:
    called = threading.Event()

    def fail(*_: object) -> None:
        raise ValueError("which is logged")

    with quick_producer(peer) as producer:
        first = producer.send("t", b"first", on_delivery=fail)
        second = producer.send("t", b"second", on_delivery=lambda *_: called.set())
        producer.flush(WAIT_S)
        assert first.result(0).partition >= 0
        assert second.result(0).partition >= 0
        assert called.is_set()


@pytest.mark.usefixtures("full_log")
def test_a_log_handler_that_raises_does_not_end_the_thread_of_the_deadlines(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_producer(peer, linger_ms=60_000) as producer:
        producer.partitions_for("t")
        missed = producer._refused_record
        fails = iter([RuntimeError("which is logged")])

        def fail_once(error: BaseException) -> None:
            for failure in fails:
                raise failure
            missed(error)

        monkeypatch.setattr(producer, "_refused_record", fail_once)
        for _ in range(2):
            future = producer.send("t", b"late", deadline=0.01)
            until(future.done)  # to wait for it would send it
            assert isinstance(future.exception(0), RecordDeadlineError)
