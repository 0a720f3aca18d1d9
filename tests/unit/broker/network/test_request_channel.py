"""The two queues between network and handlers (B-A5)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod.broker.network.request import EndThrottlingResponse, StartThrottlingResponse
from fastprod.broker.network.request_channel import SHUTDOWN
from fastprod.errors import IllegalStateError
from support.broker.request_samples import Answers, Desk

PATIENCE_S = 20.0


def test_requests_come_out_in_order() -> None:
    desk = Desk()
    first, second = desk.request(), desk.request()
    assert desk.offer(first)
    assert desk.offer(second)
    assert desk.channel.request_queue_size == 2
    assert [desk.channel.receive(), desk.channel.receive()] == [first, second]
    assert desk.channel.request_queue_size == 0


@pytest.mark.parametrize(("release", "taken"), [("receive", True), ("wake_senders", False)])
def test_a_full_queue_blocks_until_there_is_room_or_the_end(release: str, taken: bool) -> None:
    """B-A5.1: back-pressure, but never beyond shutdown."""
    desk = Desk(capacity_count=1)
    assert desk.offer(desk.request())
    blocked = desk.request()
    assert not desk.offer(blocked)
    asked = threading.Event()
    stopping = threading.Event()
    outcome: list[bool] = []

    def keep_waiting() -> bool:
        # What it says the first time is said before the test goes on.
        keeps = not stopping.is_set()
        asked.set()
        return keeps

    sending = threading.Thread(
        target=lambda: outcome.append(desk.channel.send_request(blocked, keep_waiting))
    )
    sending.start()
    assert asked.wait(PATIENCE_S)
    stopping.set()
    getattr(desk.channel, release)()
    sending.join(PATIENCE_S)
    assert outcome == [taken]
    assert desk.channel.request_queue_size == 1


def test_the_end_comes_behind_the_requests_and_needs_no_room() -> None:
    """B-A5.5."""
    desk = Desk(capacity_count=1)
    request = desk.request()
    assert desk.offer(request)
    desk.channel.send_shutdown()
    assert [desk.channel.receive() for _ in range(2)] == [request, SHUTDOWN]


@pytest.mark.parametrize("item", ["request", "shutdown"])
def test_a_waiting_handler_is_woken_by_whatever_comes(item: str) -> None:
    """B-A5.5: by the end too."""
    desk = Desk()
    request = desk.request()
    received: list[Any] = []
    waiting = threading.Thread(target=lambda: received.append(desk.channel.receive()))
    waiting.start()
    if item == "request":
        desk.offer(request)
    else:
        desk.channel.send_shutdown()
    waiting.join(PATIENCE_S)
    assert received == [request if item == "request" else SHUTDOWN]


def test_a_response_goes_to_the_processor_of_its_connection() -> None:
    """B-A9: an answer is stamped, a remark about throttling is not."""
    desk = Desk()
    other = Answers(id=1)
    desk.channel.add_processor(other)
    request = desk.request()
    request.connection.processor_id = 1
    desk.channel.send_response(StartThrottlingResponse(request))
    desk.channel.send_response(EndThrottlingResponse(request))
    assert request.response_enqueued_ns == -1
    desk.clock.advance(3)
    request.respond([b"x"])
    assert request.response_enqueued_ns == 3_000_000
    assert len(other.responses) == desk.channel.response_queue_size == 3
    assert desk.answers.responses == []


def test_a_response_for_a_removed_processor_is_dropped_and_completed() -> None:
    """B-A5.3, B-A3.5."""
    desk = Desk()
    desk.channel.remove_processor(0)
    desk.channel.remove_processor(0)
    done: list[int] = []
    desk.request().respond([b"x"], on_complete=lambda: done.append(1))
    assert done == [1]
    assert desk.answers.responses == []


def test_processors_have_ids_of_their_own() -> None:
    with pytest.raises(IllegalStateError, match="processor 0 exists"):
        Desk().channel.add_processor(Answers())


def test_a_queue_needs_room() -> None:
    with pytest.raises(ValueError, match="1 or more, not 0"):
        Desk(capacity_count=0)
