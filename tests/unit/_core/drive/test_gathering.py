"""Threads that an answer wakes together send their next records in one request, by steps."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.engine.sender_steps import TOPIC, Steps, partition_answer, produce_response
from support.oracle import kio_codec

MANY = 4
LONGEST_MS = 0.4
ROUND_TRIP_MS = 1.0
FIRST_TRIAL = 4
"""Requests after a time that was lost; the next one waits for all again."""


@contextmanager
def connected(**config: Any) -> Iterator[tuple[Steps, socket.socket]]:
    """A sender, and the socket at which its node would be."""
    sender = Steps(**{"linger_ms": None, **config})
    near, far = socket.socketpair()
    with far:
        sender.door.connect_socket(0, near.detach())
        yield sender, far


def wake_together(sender: Steps, count: int = MANY) -> None:
    """One request is answered for whose records so many threads wait."""
    first, *_ = [sender.send() for _ in range(count)]
    sender.door.pretend_waiting(first, count)
    handle = sender.drain()
    sender.pass_time(ROUND_TRIP_MS)
    sender.succeed(handle)
    sender.door.pretend_waiting(first, -count)


def test_what_they_send_next_goes_together_with_the_last_of_it() -> None:
    with connected() as (sender, _):
        wake_together(sender)
        assert sender.door.gathering == MANY
        kicks = sender.door.kicks
        for left in range(MANY - 1, 0, -1):
            sender.send()
            assert sender.door.gathering == left
            assert sender.door.kicks == kicks, "the I/O thread sleeps on"
            assert sender.door.serve(0) == 0
        sender.send()
        assert sender.door.kicks == kicks + 1
        assert sender.door.serve(0) == 1
        assert not sender.queue()


def test_who_does_not_come_is_not_waited_for_any_longer() -> None:
    with connected() as (sender, _):
        wake_together(sender)
        sender.send()
        sender.pass_time(LONGEST_MS - 0.01)
        assert sender.door.serve(0) == 0
        sender.pass_time(0.02)
        assert sender.door.serve(0) == 1
        assert sender.door.gathering == 0
        kicks = sender.door.kicks
        sender.send()
        assert sender.door.kicks == kicks + 1


def test_a_record_that_is_waited_for_wakes_nobody_meanwhile() -> None:
    with connected() as (sender, _):
        wake_together(sender)
        future = sender.send()
        kicks = sender.door.kicks
        with pytest.raises(TimeoutError):
            future.result(0)
        assert sender.door.kicks == kicks
        sender.pass_time(LONGEST_MS)
        assert sender.door.serve(0) == 1


def test_a_flush_waits_for_nobody() -> None:
    with connected() as (sender, _):
        wake_together(sender)
        sender.send()
        sender.door.set_flushing(1)
        assert sender.door.serve(0) == 1
        sender.door.set_flushing(0)


@pytest.mark.parametrize(
    ("count", "config"), [(1, {}), (2, {}), (MANY, {"linger_ms": 0})], ids=["one", "two", "linger"]
)
def test_few_threads_and_a_given_linger_are_let_alone(count: int, config: dict[str, Any]) -> None:
    with connected(**config) as (sender, _):
        wake_together(sender, count)
        assert sender.door.gathering == 0
        sender.send()
        assert sender.door.serve(0) == 1


def answer_one(sender: Steps, far: socket.socket) -> None:
    """The node answers the oldest request whose frame it has not read."""
    (size,) = struct.unpack(">i", far.recv(4, socket.MSG_WAITALL))
    header, _ = kio_codec.decode_request(far.recv(size, socket.MSG_WAITALL))
    answer = produce_response(sender.version, {TOPIC: [partition_answer(0, base_offset=0)]})
    far.sendall(struct.pack(">ii", 4 + len(answer), header.correlation_id) + answer)
    sender.door.poll()


def test_threads_whose_records_are_in_the_next_request_already_are_waited_for_too() -> None:
    """Else there would be two groups for good, each with requests of its own."""
    with connected(is_known=True) as (sender, far):
        groups = []
        for _ in range(2):
            futures = [sender.send() for _ in range(MANY)]
            sender.door.pretend_waiting(futures[0], MANY)
            sender.door.set_flushing(1)
            assert sender.door.serve(0) == 1
            sender.door.set_flushing(0)
            groups.append(futures[0])
        sender.pass_time(ROUND_TRIP_MS)
        answer_one(sender, far)
        assert sender.door.gathering == 2 * MANY
        for _ in range(MANY):
            sender.send()
        answer_one(sender, far)
        assert sender.door.gathering == MANY
        for each in groups:
            sender.door.pretend_waiting(each, -MANY)


def test_an_answer_that_tells_nobody_gathers_nothing() -> None:
    with connected() as (sender, _):
        for _ in range(MANY):
            sender.send()
        sender.succeed(sender.drain())
        assert sender.door.gathering == 0


def send_next(sender: Steps, count: int) -> None:
    """So many of the threads that were woken send in time, and their records are answered."""
    for _ in range(count):
        sender.send()
    sender.pass_time(LONGEST_MS + 0.01)
    handle = sender.drain()
    assert sender.door.gathering == 0
    sender.succeed(handle)


def test_time_is_not_lost_again_on_threads_that_do_something_else_first() -> None:
    with connected() as (sender, _):
        wake_together(sender)
        send_next(sender, MANY - 1)
        wake_together(sender)
        assert sender.door.gathering == MANY - 1
        send_next(sender, 1)
        for _ in range(FIRST_TRIAL):
            wake_together(sender)
            assert sender.door.gathering == 0, "one is not worth the wait"
        wake_together(sender)
        assert sender.door.gathering == MANY, "they may have changed their habits"


def test_all_are_waited_for_the_more_seldom_the_more_often_it_was_in_vain() -> None:
    with connected() as (sender, _):
        for fold in (1, 2):
            wake_together(sender)
            send_next(sender, 1)
            for _ in range(fold * FIRST_TRIAL):
                wake_together(sender)
                assert sender.door.gathering == 0
        wake_together(sender)
        send_next(sender, MANY)
        wake_together(sender)
        assert sender.door.gathering == MANY
        send_next(sender, MANY - 1)
        for _ in range(FIRST_TRIAL):
            wake_together(sender)
            assert sender.door.gathering == MANY - 1
            send_next(sender, MANY - 1)
        wake_together(sender)
        assert sender.door.gathering == MANY, "that they came made the next trial come soon"


def test_a_flush_says_nothing_of_who_comes() -> None:
    with connected() as (sender, _):
        wake_together(sender)
        sender.door.set_flushing(1)
        sender.door.serve(0)
        sender.door.set_flushing(0)
        wake_together(sender)
        assert sender.door.gathering == MANY
