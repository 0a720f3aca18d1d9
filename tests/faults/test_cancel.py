"""Records taken back: what a broker sees of them, and what their neighbours do (P-A.3.13)."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

from fastprod import KafkaProducer, ProducerInterceptor, RecordFuture
from fastprod.errors import RecordCancelledError
from fastprod.protocol.api_keys import END_TXN, INIT_PRODUCER_ID, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

LONG_MS = 60_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROUNDS = 40


class Listener(ProducerInterceptor):
    """What it was told of."""

    told: list[Any]

    def __init__(self) -> None:
        self.told = []

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any = None) -> None:
        self.told.append((metadata.offset, type(error), list(headers)))


@pytest.mark.parametrize("compression_type", CODECS)
def test_the_broker_gets_what_was_not_cancelled_in_order(peer: Peer, compression_type: str) -> None:
    """With keys and headers, in several partitions; each offset is the record's own."""
    source = random.Random(compression_type)
    with quick_producer(peer, linger_ms=LONG_MS, compression_type=compression_type) as producer:
        producer.warmup("t")
        sent = []
        for number in range(400):
            value = b"%d" % number
            future = producer.send(
                "t", value, key=b"k" * (number % 3), headers={"n": value}, partition=number % 2
            )
            sent.append((value, number % 2, future))
        back = {value for value, _, _ in sent if source.random() < 0.4}
        for value, _, future in sent:
            if value in back:
                assert future.cancel()
        producer.flush(WAIT_S)
        for partition in range(2):
            stay = [value for value, where, _ in sent if where == partition and value not in back]
            assert peer.values("t", partition) == stay
        for value, partition, future in sent:
            if value in back:
                assert future.cancelled()
            else:
                assert peer.values("t", partition)[future.result(WAIT_S).offset] == value


def test_callbacks_and_interceptors_are_told(peer: Peer) -> None:
    listener = Listener()
    seen: list[Any] = []
    with quick_producer(peer, linger_ms=LONG_MS, interceptor_classes=[listener]) as producer:
        producer.warmup("t")
        future = producer.send(
            "t",
            b"back",
            headers=[("h", b"1")],
            partition=0,
            on_delivery=lambda *each: seen.append(each),
        )
        goes = producer.send("t", b"goes", partition=0)
        assert future.cancel()
        assert listener.told == [(-1, type(future.exception()), [("h", b"1")])]
        ((metadata, error),) = seen
        assert (metadata.topic, metadata.partition, metadata.offset) == ("t", 0, -1)
        assert isinstance(error, RecordCancelledError)
        assert goes.result(WAIT_S).offset == 0
    assert len(listener.told) == 2
    assert len(seen) == 1


def test_memory_that_others_wait_for_comes_back(peer: Peer) -> None:
    """A send that waits for memory goes on when records are cancelled that fill it."""
    peer.on(INIT_PRODUCER_ID).hold()
    with quick_producer(
        peer,
        linger_ms=0,
        warmup_topics=["t"],
        batch_size=16_384,
        buffer_memory=1 << 17,
        max_block_ms=LONG_MS,
    ) as producer:
        producer.partitions_for("t")
        futures: list[RecordFuture] = []
        while not (latest := producer.try_send("t", bytes(10_000), partition=0)).done():
            futures.append(latest)
        waiting = threading.Thread(target=lambda: futures.append(producer.send("t", bytes(10_000))))
        waiting.start()
        peer.wait_until(
            lambda: bool(producer._engine.counters()["waiting_threads"]),
            WAIT_S,
            "a send that waits",
        )
        assert all(future.cancel() for future in futures[:8])
        waiting.join(WAIT_S)
        assert not waiting.is_alive()
        peer.wait_until_held()
        peer.release()
        assert all(future.result(WAIT_S) for future in futures[8:])


def test_an_idempotent_producer_goes_on_through_lost_connections(peer: Peer) -> None:
    """What is cancelled while requests are lost and sent again leaves no gap in the sequences."""
    peer.on(PRODUCE).close().times(5)
    with quick_producer(peer, linger_ms=0) as producer:
        producer.warmup("t")
        sent = [
            (b"%d" % number, producer.send("t", b"%d" % number, partition=0))
            for number in range(300)
        ]
        back = {value for value, future in sent[::3] if future.cancel()}
        producer.flush(WAIT_S)
        assert peer.values("t", 0) == [value for value, _ in sent if value not in back]
        for value, future in sent:
            assert (value in back) is isinstance(future.exception(0), RecordCancelledError)


@pytest.mark.parametrize("level", [1, 2], ids=["before KIP-890", "KIP-890"])
def test_a_transaction_commits_what_was_not_cancelled(new_peer: PeerFactory, level: int) -> None:
    """Also one of which nothing is left: there is nothing that the coordinator should end."""
    peer = new_peer({"t": 2}, features={"transaction.version": level})
    with quick_producer(peer, transactional_id="ledger", linger_ms=LONG_MS) as producer:
        producer.init_transactions(WAIT_S)
        with producer.transaction():
            stays = producer.send("t", b"stays", partition=0)
            assert producer.send("t", b"back", partition=0).cancel()
            assert producer.send("t", b"back", partition=1).cancel()
        assert stays.result(0).offset == 0
        assert peer.values("t", 0) == [b"stays"]
        with producer.transaction():
            assert producer.send("t", b"back", partition=0).cancel()
        with producer.transaction():
            producer.send("t", b"more", partition=0)
        if level == 2:
            assert len(peer.requests(END_TXN)) == 2


def test_cancel_races_with_the_io_thread(peer: Peer) -> None:
    """True means that it never arrives, False that it may: nothing is both, nothing is neither."""

    def cancel_some(futures: list[tuple[bytes, RecordFuture]], back: set[bytes]) -> None:
        back.update(value for value, future in futures if future.cancel())

    with quick_producer(peer, linger_ms=0, batch_size=2_000) as producer:
        producer.warmup("t")
        back: set[bytes] = set()
        sent: list[tuple[bytes, RecordFuture]] = []
        for round_number in range(ROUNDS):
            latest = [
                (
                    b"%d.%d" % (round_number, number),
                    producer.send("t", b"%d.%d" % (round_number, number), partition=0),
                )
                for number in range(50)
            ]
            sent += latest
            threads = [
                threading.Thread(target=cancel_some, args=(latest[at::3], back)) for at in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_S)
        producer.flush(WAIT_S)
        assert peer.values("t", 0) == [value for value, _ in sent if value not in back]
        assert all(future.cancelled() is (value in back) for value, future in sent)
        wait_until_memory_is_back(producer, peer)


def wait_until_memory_is_back(producer: KafkaProducer, peer: Peer) -> None:
    def is_back() -> bool:
        found = producer._engine.counters()
        return bool(found["buffer_available_bytes"] == found["buffer_total_bytes"])

    peer.wait_until(is_back, WAIT_S, "the pool whole again")


def test_rows_of_a_bulk_keep_their_offsets_beside_cancelled_records(peer: Peer) -> None:
    """Also the ranges and the arrays of what shares batches with them."""
    with quick_producer(peer, linger_ms=LONG_MS) as producer:
        producer.warmup("t")
        single, bulks = [], []
        for number in range(20):
            single.append(producer.send("t", b"back", partition=0))
            bulks.append(
                producer.send_many(
                    "t", [b"%d.%d" % (number, n) for n in range(3)], partitions=[0] * 3
                )
            )
        assert all(future.cancel() for future in single[::2])
        producer.flush(WAIT_S)
        values = peer.values("t", 0)
        assert len(values) == 70
        for number, bulk in enumerate(bulks):
            told = bulk.result(WAIT_S)
            (found,) = told.ranges
            wanted = [b"%d.%d" % (number, n) for n in range(3)]
            assert values[found.first_offset : found.first_offset + 3] == wanted
            first = found.first_offset
            assert np.array_equal(bulk.arrays().offsets, np.arange(first, first + 3))
        for future in single[1::2]:
            assert values[future.result(0).offset] == b"back"


def test_a_record_that_is_cancelled_while_the_thread_for_callbacks_starts_tells(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first callback starts it, and others run meanwhile; the record's batch goes on."""
    seen: list[Any] = []
    with quick_producer(peer, linger_ms=LONG_MS) as producer:
        producer.warmup("t")
        back, stays = (producer.send("t", b"%d" % number, partition=0) for number in range(2))
        start = producer._delivery.start

        def start_slowly() -> None:
            monkeypatch.undo()
            start()
            assert back.cancel()

        monkeypatch.setattr(producer._delivery, "start", start_slowly)
        back.add_done_callback(lambda future: seen.append(future.cancelled()))
        assert seen == [True]
        producer.flush(WAIT_S)
        assert stays.result(WAIT_S).offset == 0
    assert seen == [True]


@pytest.mark.parametrize("is_bulk", [False, True])
def test_callbacks_that_are_added_while_their_thread_starts_all_run(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, is_bulk: bool
) -> None:
    seen: list[Any] = []
    with quick_producer(peer, linger_ms=LONG_MS) as producer:
        producer.warmup("t")
        future: Any = producer.send("t", b"x", partition=0)
        if is_bulk:
            future = producer.send_many("t", [b"a", b"b"])
        start = producer._delivery.start

        def start_slowly() -> None:
            monkeypatch.undo()
            start()
            future.add_done_callback(lambda _: seen.append("first"))

        monkeypatch.setattr(producer._delivery, "start", start_slowly)
        future.add_done_callback(lambda _: seen.append("second"))
        producer.flush(WAIT_S)
    assert seen == ["first", "second"]
