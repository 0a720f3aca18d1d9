"""A transaction right behind another one, taken turn by turn (P-I.7.8)."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from fastprod._core.delivery.result import ERR_TXN_ABORTED
from fastprod._core.engine.control_queue import EventKind
from fastprod.client.transactions.ending_question import EndingQuestion, ending_question
from fastprod.errors import TransactionAbortedError
from fastprod.protocol.api_keys import DESCRIBE_TRANSACTIONS, END_TXN, PRODUCE
from fastprod.protocol.messages.transaction import end_txn
from fastprod.protocol.messages.transaction.end_txn import EndTxnRequest
from support.engine.sender_steps import Steps, outcome
from support.oracle import kio_codec

TRANSACTIONAL_ID = "ledger"
NODE = 0
WAIT_S = 10.0
AT_ONCE = 6
NOT_AUTHORIZED = 53
NOT_COORDINATOR = 16
CONCURRENT_TRANSACTIONS = 51


class Coordinator:
    """The far end of the connection to the one broker, which is the partition's leader, too."""

    def __init__(self) -> None:
        self.sender = Steps(transactional_id=TRANSACTIONAL_ID, client_id="c")
        self.sender.door.now_ms = time.monotonic_ns() / 1e6  # sockets go by the true time
        near, self.sock = socket.socketpair()
        self.sock.settimeout(WAIT_S)
        self.sender.door.connect_socket(NODE, near.detach())

    def begin(self, *, committed: bool = True) -> None:
        self.sender.engine.begin_transaction(True, question(committed=committed))
        self.sender.door.obey()

    def end(self, *, committed: bool = True) -> int:
        """EndTxn goes, with a question behind its answer; its correlation id."""
        asked = question(committed=committed)
        message = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=4000,
            producer_epoch=3,
            committed=committed,
        )
        frame = end_txn.API.request_frame(5, 0, "c", message)
        self.sender.engine.send_frame(NODE, 7, frame, b"", 0, asked)
        self.sender.door.obey()
        api_key, correlation_id = self.take()
        assert api_key == END_TXN
        return correlation_id

    def end_told(self, correlation_id: int, error_code: int = 0) -> None:
        """EndTxn is answered."""
        body = {
            "throttle_time": 0,
            "error_code": error_code,
            "producer_id": 4000,
            "producer_epoch": 4,
        }
        self.reply(kio_codec.encode_response(END_TXN, 5, correlation_id, body))

    def turn(self) -> None:
        """What came is taken, and what is due is sent."""
        self.sender.door.poll()
        self.sender.door.serve(NODE)

    def take(self) -> tuple[int, int]:
        """API key and correlation id of the next request."""
        (size,) = struct.unpack(">i", self._receive(4))
        header = kio_codec.request_header(self._receive(size))
        return header.api_key, header.correlation_id

    def asked(self) -> int:
        """The question has come; its correlation id."""
        api_key, correlation_id = self.take()
        assert api_key == DESCRIBE_TRANSACTIONS
        return correlation_id

    def answer(self, correlation_id: int, state: str, **fields: Any) -> None:
        one = {
            "error_code": 0,
            "transactional_id": TRANSACTIONAL_ID,
            "transaction_state": state,
            "transaction_timeout": 60_000,
            "transaction_start_time": 1,
            "producer_id": 4000,
            "producer_epoch": 3,
            "topics": [],
            **fields,
        }
        throttle_ms = one.pop("throttle_time", 0)
        body = {"throttle_time": throttle_ms, "transaction_states": [one]}
        self.reply(kio_codec.encode_response(DESCRIBE_TRANSACTIONS, 0, correlation_id, body))

    def reply(self, frame: bytes) -> None:
        self.sock.sendall(frame)
        self.turn()

    def is_released(self) -> bool:
        """Whether the records came."""
        self.sock.settimeout(0)
        try:
            api_key, _ = self.take()
        except BlockingIOError:
            return False
        finally:
            self.sock.settimeout(WAIT_S)
        assert api_key == PRODUCE
        return True

    def is_asked_again(self) -> bool:
        """Whether a question is there; it stays."""
        self.sock.settimeout(0)
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self.sock.settimeout(WAIT_S)

    def refusals(self) -> int:
        return len(self.sender.events(EventKind.ON_QUESTION_REFUSED))

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.sock.recv(size - len(found))
            assert part
            found += part
        return found


def question(*, committed: bool = True) -> EndingQuestion:
    return ending_question(NODE, "c", TRANSACTIONAL_ID, committed=committed)


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    found = Coordinator()
    with closing(found.sock):
        yield found


@pytest.mark.parametrize("committed", [True, False])
def test_records_wait_until_the_transaction_before_has_ended(
    coordinator: Coordinator, committed: bool
) -> None:
    """P-I.7.8"""
    coordinator.begin(committed=committed)
    coordinator.sender.send(b"a")
    coordinator.turn()
    for _ in range(3):
        asked = coordinator.asked()
        assert not coordinator.is_released()
        coordinator.answer(asked, "PrepareCommit" if committed else "PrepareAbort")
    coordinator.answer(coordinator.asked(), "CompleteCommit" if committed else "CompleteAbort")
    assert coordinator.is_released()
    assert coordinator.refusals() == 0


@pytest.mark.parametrize("state", ["Ongoing", "Empty", "?", "", "PrepareCommitted", "PrepareAbort"])
def test_any_other_state_lets_them_go(coordinator: Coordinator, state: str) -> None:
    """P-I.7.8: the brokers decide."""
    coordinator.begin()
    coordinator.sender.send(b"a")
    coordinator.answer(coordinator.asked(), state)
    assert coordinator.is_released()
    assert coordinator.refusals() == 0


@pytest.mark.parametrize(
    "fields",
    [{"error_code": NOT_AUTHORIZED}, {"transactional_id": "another"}],
    ids=["refused", "of another"],
)
def test_an_answer_about_something_else_is_told(
    coordinator: Coordinator, fields: dict[str, Any]
) -> None:
    """P-I.7.8"""
    coordinator.begin()
    coordinator.sender.send(b"a")
    coordinator.answer(coordinator.asked(), "PrepareCommit", **fields)
    assert coordinator.is_released()
    assert coordinator.refusals() == 1


@pytest.mark.parametrize("error_code", [14, 15, NOT_COORDINATOR])
def test_a_coordinator_that_has_moved_is_no_refusal(
    coordinator: Coordinator, error_code: int
) -> None:
    """P-I.7.8: the new one is asked the next time."""
    coordinator.begin()
    coordinator.sender.send(b"a")
    coordinator.answer(coordinator.asked(), "", error_code=error_code)
    assert coordinator.is_released()
    assert coordinator.refusals() == 0


def test_an_answer_that_makes_no_sense_does_not_throttle(coordinator: Coordinator) -> None:
    """P-G.8: else no record would leave for weeks."""
    coordinator.begin()
    coordinator.sender.send(b"a")
    body = struct.pack(">i", coordinator.asked()) + b"\x7f" * 40
    coordinator.reply(struct.pack(">i", len(body)) + body)
    assert coordinator.is_released()
    assert coordinator.refusals() == 1


@pytest.mark.parametrize("size", [4, 5, 8, 9, 12, 20, 32])
def test_an_answer_that_ends_early_lets_them_go(coordinator: Coordinator, size: int) -> None:
    """P-I.7.8: wherever it ends."""
    coordinator.begin()
    coordinator.sender.send(b"a")
    whole = bytearray()
    correlation_id = coordinator.asked()
    whole += struct.pack(">ibi", correlation_id, 0, 0) + question().head + question().state
    assert size < len(whole)
    coordinator.reply(struct.pack(">i", size) + whole[:size])
    assert coordinator.is_released()


def test_a_lost_connection_lets_them_go(coordinator: Coordinator) -> None:
    """P-I.7.8"""
    coordinator.begin()
    future = coordinator.sender.send(b"a")
    coordinator.asked()
    coordinator.sender.door.disconnect(NODE)
    coordinator.turn()
    coordinator.sender.door.connect(NODE)
    assert outcome(future) is None
    assert coordinator.sender.values(coordinator.sender.drain()) == [b"a"]


def test_who_is_not_connected_is_not_asked(coordinator: Coordinator) -> None:
    """P-I.7.8"""
    coordinator.sender.door.disconnect(NODE)
    coordinator.begin()
    coordinator.sender.send(b"a")
    coordinator.sender.door.connect(NODE)
    assert coordinator.sender.values(coordinator.sender.drain()) == [b"a"]


def test_it_is_asked_again_at_once_and_then_after_pauses(coordinator: Coordinator) -> None:
    """P-I.7.8: up to 20 ms."""
    coordinator.begin()
    for _ in range(AT_ONCE):
        coordinator.answer(coordinator.asked(), "PrepareCommit")
    pauses_ms = []
    for _ in range(7):
        coordinator.answer(coordinator.asked(), "PrepareCommit")
        pause_ms = 0.0
        while not coordinator.is_asked_again():
            coordinator.sender.pass_time(0.5)
            pause_ms += 0.5
            coordinator.sender.door.serve(NODE)
        pauses_ms.append(pause_ms)
    assert pauses_ms == [1, 2, 4, 8, 16, 20, 20]


def test_what_is_aborted_meanwhile_fails(coordinator: Coordinator) -> None:
    """P-I.7.8: and an answer that comes late concerns nobody."""
    coordinator.begin()
    gone = coordinator.sender.send(b"a")
    late = coordinator.asked()
    coordinator.sender.engine.abort_undrained(ERR_TXN_ABORTED, "")
    coordinator.turn()
    assert isinstance(outcome(gone), TransactionAbortedError)
    coordinator.begin()
    coordinator.sender.send(b"b")
    asked = coordinator.asked()
    coordinator.answer(late, "CompleteAbort")
    assert not coordinator.is_released()
    coordinator.answer(asked, "CompleteAbort")
    assert coordinator.is_released()


def test_a_coordinator_that_wants_to_be_left_alone_is(coordinator: Coordinator) -> None:
    """P-G.8"""
    coordinator.begin()
    coordinator.answer(coordinator.asked(), "PrepareCommit", throttle_time=500)
    assert not coordinator.is_asked_again()
    coordinator.sender.pass_time(400)
    coordinator.sender.door.serve(NODE)
    assert not coordinator.is_asked_again()
    coordinator.sender.pass_time(200)
    coordinator.sender.door.serve(NODE)
    assert coordinator.is_asked_again()


# Asked ahead: behind the answer to EndTxn.


@pytest.mark.parametrize("committed", [True, False])
def test_who_was_asked_ahead_is_not_asked_when_the_next_one_begins(
    coordinator: Coordinator, committed: bool
) -> None:
    """P-I.7.8"""
    coordinator.end_told(coordinator.end(committed=committed))
    coordinator.answer(coordinator.asked(), "CompleteCommit" if committed else "CompleteAbort")
    coordinator.begin(committed=committed)
    coordinator.sender.send(b"a")
    coordinator.turn()
    assert coordinator.is_released()


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_asked_ahead_holds_the_next_one(coordinator: Coordinator, committed: bool) -> None:
    """P-I.7.8"""
    coordinator.end_told(coordinator.end(committed=committed))
    state = "PrepareCommit" if committed else "PrepareAbort"
    coordinator.answer(coordinator.asked(), state)
    asked = coordinator.asked()
    coordinator.begin(committed=committed)
    coordinator.sender.send(b"a")
    coordinator.answer(asked, state)
    assert coordinator.is_asked_again()
    coordinator.answer(coordinator.asked(), "Empty")
    assert coordinator.is_released()


def test_nothing_is_asked_before_the_end_is_told(coordinator: Coordinator) -> None:
    """P-I.7.8"""
    end = coordinator.end()
    coordinator.turn()
    assert not coordinator.is_asked_again()
    coordinator.end_told(end)
    coordinator.asked()


@pytest.mark.parametrize("error_code", [NOT_COORDINATOR, CONCURRENT_TRANSACTIONS])
def test_nothing_is_asked_behind_an_end_that_was_refused(
    coordinator: Coordinator, error_code: int
) -> None:
    """P-I.7.8: who is not the coordinator any more would refuse, and nobody be asked again."""
    coordinator.end_told(coordinator.end(), error_code)
    coordinator.turn()
    assert not coordinator.is_asked_again()
    coordinator.end_told(coordinator.end())
    coordinator.answer(coordinator.asked(), "CompleteCommit")
    assert coordinator.refusals() == 0


def test_who_begins_no_other_transaction_asks_no_longer(coordinator: Coordinator) -> None:
    """P-I.7.8: after 100 ms nobody would wait for it."""
    coordinator.end_told(coordinator.end())
    asked = coordinator.asked()
    coordinator.sender.pass_time(101)
    coordinator.answer(asked, "PrepareCommit")
    coordinator.sender.pass_time(101)
    coordinator.sender.door.serve(NODE)
    assert not coordinator.is_asked_again()
