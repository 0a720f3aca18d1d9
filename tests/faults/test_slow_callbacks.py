"""Callbacks slower than the senders: what waits for them counts as buffer_memory (P-D.3,
P-A.3.13).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import BufferExhaustedError, ProducerClosedError
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

BUFFER_BYTES = 1 << 20
RECORD_BYTES = 100
MANY = 200_000
BULK = 500
BATCH_BYTES = 16_384


class Gate:
    """A callback that returns once it is let go; in the thread that sends it returns at once."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.calls = 0
        self.sending_threads = {threading.get_ident()}

    def on_delivery(self, _metadata: Any, _error: BaseException | None) -> None:
        self.wait()

    def on_done(self, _future: Any) -> None:
        self.wait()

    def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
        self.on_delivery(metadata, error)

    def wait(self) -> None:
        if threading.get_ident() in self.sending_threads:
            return
        self.calls += 1
        self.entered.set()
        assert self.opened.wait(WAIT_S)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@contextmanager
def small_producer(
    peer: Peer, gate: Gate | None = None, **settings: Any
) -> Iterator[KafkaProducer]:
    """A producer that knows its topic; the gate is open before it is closed."""
    given = {
        "buffer_memory": BUFFER_BYTES,
        "batch_size": BATCH_BYTES,
        "max_block_ms": 200,
        **settings,
    }
    with quick_producer(peer, **given) as producer:
        producer.warmup("t", timeout=WAIT_S)
        try:
            yield producer
        finally:
            if gate is not None:
                gate.opened.set()


def send_with_callback(producer: KafkaProducer, gate: Gate) -> BaseException | None:
    future = producer.send("t", bytes(RECORD_BYTES), on_delivery=gate.on_delivery)
    return future.exception(0) if future.done() else None


def send_and_add_callback(producer: KafkaProducer, gate: Gate) -> BaseException | None:
    future = producer.send("t", bytes(RECORD_BYTES))
    if future.done() and future.failed():
        return future.exception(0)
    future.add_done_callback(gate.on_done)
    return None


def send_only(producer: KafkaProducer, _gate: Gate) -> BaseException | None:
    future = producer.send("t", bytes(RECORD_BYTES))
    return future.exception(0) if future.done() else None


def send_bulk(producer: KafkaProducer, gate: Gate) -> BaseException | None:
    bulk = producer.send_many("t", [bytes(RECORD_BYTES)] * BULK)
    if bulk.done():
        failures = bulk.failures(0)
        return failures[0][1] if failures else None
    bulk.add_done_callback(gate.on_done)
    return None


def last_refusal(
    send: Callable[[KafkaProducer, Gate], BaseException | None],
    producer: KafkaProducer,
    gate: Gate,
    calls: int,
    peer: Peer,
) -> BufferExhaustedError:
    """Send until all that holds memory are callbacks: first it may be a slow broker too."""
    while True:
        error = first_refusal(send, producer, gate, calls)
        assert isinstance(error, BufferExhaustedError)
        peer.wait_until(lambda: incomplete_for_test(producer._engine)[1] == 0)
        if error.callback_bytes > BUFFER_BYTES // 2:
            return error


def first_refusal(
    send: Callable[[KafkaProducer, Gate], BaseException | None],
    producer: KafkaProducer,
    gate: Gate,
    calls: int,
) -> BaseException | None:
    """Send until a record finds no memory; None: all of them found some."""
    for _ in range(calls):
        error = send(producer, gate)
        if error is not None:
            return error
    return None


def all_is_free(producer: KafkaProducer) -> bool:
    counters = producer._engine.counters()
    return bool(
        counters["buffer_available_bytes"] == counters["buffer_total_bytes"]
        and counters["buffer_callback_bytes"] == 0
    )


@pytest.mark.parametrize(
    ("send", "calls", "has_interceptor"),
    [
        pytest.param(send_with_callback, MANY, False, id="on_delivery"),
        pytest.param(send_and_add_callback, MANY, False, id="add_done_callback"),
        pytest.param(send_only, MANY // 4, True, id="interceptor"),
        pytest.param(send_bulk, MANY // BULK, False, id="send_many"),
    ],
)
def test_senders_wait_for_a_callback_that_does_not_return(
    peer: Peer, gate: Gate, send: Any, calls: int, has_interceptor: bool
) -> None:
    """buffer_memory bounds what waits for callbacks too; the error says how much that is."""
    settings = {"interceptor_classes": [gate]} if has_interceptor else {}
    with small_producer(peer, gate, **settings) as producer:
        error = last_refusal(send, producer, gate, calls, peer)
        assert 0 < error.waited_ms <= 200
        assert error.callback_bytes > BUFFER_BYTES // 2
        assert f"{error.callback_bytes:,} bytes wait for callbacks" in str(error)
        group = producer.metrics()["producer-metrics"]
        assert group["buffer-callback-bytes"] > BUFFER_BYTES // 2
        assert group["buffer-available-bytes"] < BUFFER_BYTES // 2
        assert gate.calls == 1
        gate.opened.set()
        producer.flush(WAIT_S)
        peer.wait_until(lambda: all_is_free(producer))
        assert producer.send("t", b"x").result(WAIT_S).topic == "t"


def test_records_without_callbacks_count_only_until_they_are_acknowledged(
    peer: Peer, gate: Gate
) -> None:
    """While a callback does not return, other records come and go."""
    with small_producer(peer, gate, max_block_ms=60_000) as producer:
        producer.send("t", b"x", on_delivery=gate.on_delivery)
        assert gate.entered.wait(WAIT_S)
        assert first_refusal(send_only, producer, gate, MANY // 4) is None
        peer.wait_until(lambda: incomplete_for_test(producer._engine)[0] == 1)
        assert 0 < producer._engine.counters()["buffer_callback_bytes"] < 10_000


def test_try_send_fails_at_once_while_callbacks_hold_the_memory(peer: Peer, gate: Gate) -> None:
    with small_producer(peer, gate) as producer:
        last_refusal(send_with_callback, producer, gate, MANY, peer)
        error = producer.try_send("t", bytes(BUFFER_BYTES // 2)).exception(0)
        assert isinstance(error, BufferExhaustedError)
        assert error.waited_ms == 0


def test_a_callback_that_sends_goes_past_those_who_wait_for_it(peer: Peer) -> None:
    """All the memory waits for callbacks, senders stand in line, and a callback sends."""
    told: list[int] = []
    answers: list[Any] = []

    def send_another(metadata: Any, error: BaseException | None) -> None:
        assert error is None
        answers.append(producer.send("t", bytes(RECORD_BYTES), on_delivery=note, partition=1))

    def note(metadata: Any, error: BaseException | None) -> None:
        assert error is None
        told.append(metadata.offset)

    def send(_n: int) -> None:
        producer.send("t", bytes(RECORD_BYTES), on_delivery=send_another, partition=0)

    with small_producer(peer, buffer_memory=65_536, max_block_ms=60_000) as producer:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(send, range(8_000)))
        peer.wait_until(lambda: len(told) == 8_000)
        assert told == list(range(8_000))
        assert {answer.result(0).partition for answer in answers} == {1}
        peer.wait_until(lambda: all_is_free(producer))


def test_a_callback_that_floods_fails_at_once_when_as_much_again_waits(peer: Peer) -> None:
    """Its records would wait for itself: up to buffer_memory of them, then no more."""
    failed: list[BaseException | None] = []
    ended = threading.Event()

    def flood(_metadata: Any, _error: BaseException | None) -> None:
        for _ in range(MANY):
            future = producer.send("t", bytes(RECORD_BYTES), on_delivery=ignore)
            if future.done() and future.failed():
                failed.append(future.exception(0))
                break
        ended.set()

    def ignore(_metadata: Any, _error: BaseException | None) -> None:
        pass

    with small_producer(peer, max_block_ms=60_000) as producer:
        producer.send("t", b"x", on_delivery=flood)
        assert ended.wait(WAIT_S)
        producer.flush(WAIT_S)
        (error,) = failed
        assert isinstance(error, BufferExhaustedError)
        assert error.callback_bytes > BUFFER_BYTES // 2
        assert error.waited_ms < 60_000


def test_a_bulk_from_a_callback_goes_past_those_who_wait(peer: Peer) -> None:
    """send_many in a callback, as send."""
    bulks: list[Any] = []

    def send_bulk_of_its_own(_metadata: Any, error: BaseException | None) -> None:
        assert error is None
        if not bulks:
            peer.wait_until(lambda: producer._engine.counters()["waiting_threads"] > 0)
            bulks.append(producer.send_many("t", [bytes(RECORD_BYTES)] * 200))

    def send(_n: int) -> None:
        producer.send("t", bytes(RECORD_BYTES), on_delivery=send_bulk_of_its_own)

    with small_producer(peer, buffer_memory=65_536, max_block_ms=60_000) as producer:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(send, range(2_000)))
        producer.flush(WAIT_S)
        assert bulks[0].result(WAIT_S).record_count == 200


def test_close_releases_who_waits_for_callbacks(peer: Peer, gate: Gate) -> None:
    """P-A.9.3: also while the callback does not return."""
    ended: list[BaseException] = []

    def send_for_ever() -> None:
        gate.sending_threads.add(threading.get_ident())
        try:
            first_refusal(send_with_callback, producer, gate, MANY)
        except ProducerClosedError as error:
            ended.append(error)

    with small_producer(peer, gate, max_block_ms=60_000) as producer:
        sender = threading.Thread(target=send_for_ever)
        sender.start()
        peer.wait_until(lambda: producer._engine.counters()["waiting_threads"] == 1)
        peer.wait_until(lambda: incomplete_for_test(producer._engine)[1] == 0)
        producer.close(0.1)
        sender.join(WAIT_S)
        assert [type(each) for each in ended] == [ProducerClosedError]
