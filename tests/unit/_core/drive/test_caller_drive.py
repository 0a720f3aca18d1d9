"""A thread that waits for what it sends does the I/O thread's work; any other one does not."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from support.broker.sockets import until
from support.peer.fixtures import PeerFactory

BOUND_S = 30.0
RECORDS = 50


def counted(producer: KafkaProducer) -> tuple[int, int]:
    """How often callers sent, and waited at a socket."""
    counters = producer._engine.counters()
    return counters["caller_sends"], counters["caller_waits"]


def test_who_waits_sends_and_reads(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for number in range(RECORDS):
            value = bytes(20_000 if number % 10 == 0 else 100)
            assert producer.send("t", value).result(BOUND_S).offset == number
        sends, waits = counted(producer)
    assert sends > 0
    assert waits > 0
    assert len(peer.values("t", 0)) == RECORDS


def test_who_flushes_sends_and_reads(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for number in range(RECORDS):
            future = producer.send("t", b"%d" % number)
            producer.flush(BOUND_S)
            assert future.done()
        sends, waits = counted(producer)
    assert sends > 0
    assert waits > 0
    assert peer.values("t", 0) == [b"%d" % number for number in range(RECORDS)]


def test_a_flush_of_more_than_one_batch_ends_with_the_last(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 2})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers, linger_ms=60_000) as producer:
        for _ in range(RECORDS):
            futures = [producer.send("t", b"x", partition=each) for each in (0, 1)]
            producer.flush(BOUND_S)
            assert all(each.done() for each in futures)


def test_who_does_not_wait_leaves_it_to_the_io_thread(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})

    def send_all() -> None:
        for _ in range(RECORDS):
            producer.send("t", b"x")

    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        thread = threading.Thread(target=send_all)  # one that has never waited
        thread.start()
        thread.join(BOUND_S)
        until(lambda: len(peer.values("t", 0)) == RECORDS)  # a flush would read at the socket
        assert counted(producer) == (0, 0)


@pytest.mark.parametrize("beside", [False, True])
def test_who_waits_does_not_pack_the_batches_of_others(new_peer: PeerFactory, beside: bool) -> None:
    """A batch that lingers would go along: that is the I/O thread's, who never has the GIL."""
    peer = new_peer({"t": 2})
    sends = 0
    with (
        ThreadPoolExecutor(1) as other,
        KafkaProducer(bootstrap_servers=peer.bootstrap_servers, linger_ms=60_000) as producer,
    ):
        for _ in range(RECORDS):
            if beside:
                other.submit(producer.send, "t", b"y", partition=1).result(BOUND_S)
            before = counted(producer)[0]
            future = producer.send("t", b"x", partition=0)
            sends += counted(producer)[0] - before
            future.result(BOUND_S)
    assert (sends == 0) if beside else (sends > 0)
    assert len(peer.values("t", 0)) == RECORDS
    assert len(peer.values("t", 1)) == RECORDS * beside


@pytest.mark.parametrize("level", [1, 2], ids=["before KIP-890", "KIP-890"])
def test_who_commits_one_record_after_the_other_sends_them(
    new_peer: PeerFactory, level: int
) -> None:
    peer = new_peer({"t": 1}, features={"transaction.version": level})
    with KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers, transactional_id="ledger"
    ) as producer:
        producer.init_transactions(BOUND_S)
        for number in range(RECORDS):
            producer.begin_transaction()
            producer.send("t", b"%d" % number)
            producer.commit_transaction(BOUND_S)
        sends, waits = counted(producer)
    assert level == 1 or sends > 0
    assert waits == 0
    values = [record.value for record in peer.log("t", 0, committed=True)]
    assert values == [b"%d" % number for number in range(RECORDS)]


def test_with_poll_nobody_drives(new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPROD_POLL", "poll")
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for number in range(RECORDS):
            assert producer.send("t", b"x").result(BOUND_S).offset == number
        assert counted(producer)[1] == 0


def test_a_connection_that_ends_under_a_driver_is_an_ordinary_loss(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as producer:
        for number in range(5):
            assert producer.send("t", b"x").result(BOUND_S).offset == number
        peer.on(PRODUCE).close()
        assert producer.send("t", b"x").result(BOUND_S).offset == 5
        assert producer.send("t", b"x").result(BOUND_S).offset == 6


def test_a_producer_closes_under_a_driver(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1})
    producer = KafkaProducer(bootstrap_servers=peer.bootstrap_servers)
    for _ in range(3):
        producer.send("t", b"x").result(BOUND_S)
    peer.on(PRODUCE).hold()
    future = producer.send("t", b"held")
    found: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: found.append(future.exception(BOUND_S)))
    thread.start()
    peer.wait_until_held()
    time.sleep(0.01)
    with pytest.raises(Exception, match="1"):
        producer.close(0)
    thread.join(BOUND_S)
    assert found
    assert found[0] is not None
    peer.release()
