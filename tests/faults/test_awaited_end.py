"""A caller in commit_transaction gets the answer to EndTxn before the control thread (P-A.8.5)."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.client.transactions.end_result import EndResult
from fastprod.client.transactions.transaction_state import TransactionState
from fastprod.protocol.api_keys import END_TXN, PRODUCE
from support.broker.sockets import until
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

CALLER = "caller"


@contextmanager
def transactional(peer: Peer) -> Iterator[KafkaProducer]:
    """A producer that has committed once, and whose control thread knows."""
    with quick_producer(peer, transactional_id="ledger", linger_ms=0) as producer:
        producer.init_transactions(WAIT_S)
        one_more(producer)
        until(lambda: client_of(producer)._transaction_requests._in_flight is None)
        yield producer


def one_more(producer: KafkaProducer) -> None:
    producer.begin_transaction()
    producer.send("t", b"x", partition=0)
    producer.commit_transaction(WAIT_S)


def new_transactional_peer(new_peer: PeerFactory) -> Peer:
    return new_peer({"t": 1}, features={"transaction.version": 2})


def committed(peer: Peer) -> list[bytes | None]:
    return [each.value for each in peer.log("t", 0, committed=True)]


def client_of(producer: KafkaProducer) -> Any:
    return producer._network_client


def held_answers(producer: KafkaProducer) -> threading.Event:
    """Until it is set the control thread takes no answer."""
    client, go_on = client_of(producer), threading.Event()
    take = client._on_response

    def late(event: object) -> None:
        go_on.wait(WAIT_S)
        take(event)

    client._on_response = late
    return go_on


def one_sleeps() -> bool:
    """One of the callers sleeps for the answer: one that comes before, the control thread gets."""
    frames = sys._current_frames()
    for caller in threading.enumerate():
        frame = frames.get(caller.ident or 0)
        if caller.name.startswith(CALLER) and frame and frame.f_code is EndResult.wait.__code__:
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            stat = Path(f"/proc/self/task/{caller.native_id}/stat").read_text()
            if ".await_end(" in line and stat.rpartition(")")[2].split()[0] == "S":
                return True
    return False


@contextmanager
def committing(
    peer: Peer, producer: KafkaProducer, callers: int = 1
) -> Iterator[list[Future[None]]]:
    """Callers that wait for a commit whose EndTxn the I/O thread sends by itself."""
    peer.on(PRODUCE).hold()
    producer.begin_transaction()
    producer.send("t", b"y", partition=0)
    with ThreadPoolExecutor(callers, CALLER) as pool:
        waiting = [pool.submit(producer.commit_transaction, WAIT_S) for _ in range(callers)]
        until(lambda: client_of(producer)._transaction_requests._early_end is not None)
        peer.wait_until_held()
        until(one_sleeps)
        peer.release()
        yield waiting


@pytest.mark.parametrize("callers", [1, 3])
def test_a_commit_returns_before_the_control_thread_knows_of_it(
    new_peer: PeerFactory, callers: int
) -> None:
    peer = new_transactional_peer(new_peer)
    with transactional(peer) as producer:
        go_on = held_answers(producer)
        with committing(peer, producer, callers) as waiting:
            for each in waiting:
                each.result(WAIT_S)
        assert not go_on.is_set()
        go_on.set()
        one_more(producer)
    assert committed(peer) == [b"x", b"y", b"x"]


def test_a_transaction_without_records_asks_nobody_behind_one_whose_answer_is_late(
    new_peer: PeerFactory,
) -> None:
    """P-I.2.2: what the control thread hears late is of the transaction before."""
    peer = new_transactional_peer(new_peer)
    with transactional(peer) as producer:
        go_on = held_answers(producer)
        with committing(peer, producer) as waiting:
            waiting[0].result(WAIT_S)
        ends = len(peer.requests(END_TXN))
        producer.begin_transaction()
        go_on.set()
        until(lambda: client_of(producer)._transaction_requests._in_flight is None)
        producer.commit_transaction(WAIT_S)
        assert len(peer.requests(END_TXN)) == ends
        one_more(producer)


@pytest.mark.parametrize("where", ["told", "changed", "done"])
def test_a_caller_that_is_interrupted_leaves_it_to_the_control_thread(
    new_peer: PeerFactory, where: str
) -> None:
    peer = new_transactional_peer(new_peer)
    with transactional(peer) as producer:
        manager = client_of(producer).transactions
        interrupt_once(manager, where)
        with committing(peer, producer) as waiting, pytest.raises(KeyboardInterrupt):
            waiting[0].result(WAIT_S)
        producer.commit_transaction(WAIT_S)
        assert manager.state is TransactionState.READY
        one_more(producer)
    assert committed(peer) == [b"x", b"y", b"x"]


def in_caller(manager: Any, instead: Callable[..., None]) -> Callable[..., None]:
    """Run this once where a caller is told of an answer, as a signal's handler may; returns what
    should have run."""
    tell: Callable[..., None] = manager.end_answered

    def once(*answer: object) -> None:
        manager.end_answered = tell
        instead(*answer)

    manager.end_answered = once
    return tell


def test_a_signals_handler_in_a_caller_that_has_the_answer_may_use_the_producer(
    new_peer: PeerFactory,
) -> None:
    """It runs before the caller does anything with the answer, and waits for the control thread."""
    peer = new_transactional_peer(new_peer)
    with transactional(peer) as producer:
        manager = client_of(producer).transactions

        def handler(*answer: object) -> None:
            producer.commit_transaction(WAIT_S)
            one_more(producer)
            peer.on(PRODUCE).hold()
            producer.begin_transaction()
            producer.send("t", b"z", partition=0)
            next_commit = manager.begin_commit()
            tell(*answer)
            assert not next_commit.is_completed  # which is another transaction
            peer.wait_until_held()
            peer.release()
            producer.commit_transaction(WAIT_S)

        tell = in_caller(manager, handler)
        with committing(peer, producer) as waiting:
            waiting[0].result(WAIT_S)
        one_more(producer)
    assert committed(peer) == [b"x", b"y", b"x", b"z", b"x"]


def test_the_control_thread_hears_of_an_answer_before_the_next_transaction(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    peer = new_transactional_peer(new_peer)
    with transactional(peer) as producer:

        def others_are_first(*answer: object) -> None:
            tell(*answer)
            producer.commit_transaction(WAIT_S)
            one_more(producer)

        tell = in_caller(client_of(producer).transactions, others_are_first)
        with committing(peer, producer) as waiting:
            waiting[0].result(WAIT_S)
        one_more(producer)
    assert committed(peer) == [b"x", b"y", b"x", b"x"]
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def interrupt_once(manager: Any, where: str) -> None:
    """Ctrl-C in the caller, before or behind a step of what an answer to EndTxn leads to."""
    name = {
        "told": "producer_id_arrived",
        "changed": "_transition",
        "done": "complete_transaction",
    }[where]
    step = getattr(manager, name)
    left = [1]

    def interrupted(*arguments: object) -> None:
        is_caller = threading.current_thread().name.startswith(CALLER)
        if where != "told":
            step(*arguments)
        if is_caller and left:
            left.pop()
            raise KeyboardInterrupt
        if where == "told":
            step(*arguments)

    setattr(manager, name, interrupted)
