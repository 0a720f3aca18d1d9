"""The two queues between network and handlers (A5)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod.broker.request import EndThrottlingResponse, StartThrottlingResponse
from fastprod.broker.request_channel import SHUTDOWN, CallbackRequest
from fastprod.errors import IllegalStateError
from request_samples import Answers, Desk

PATIENCE_S = 20.0


def nothing() -> None:
    """A callback."""


def test_requests_come_out_in_order_and_stamped() -> None:
    """A9."""
    desk = Desk()
    first, second = desk.request(), desk.request()
    assert desk.channel.send_request(first, lambda: True)
    assert desk.channel.offer_request(second)
    assert desk.channel.request_queue_size == 2
    desk.clock.advance(5)
    assert [desk.channel.receive(), desk.channel.receive_now()] == [first, second]
    assert first.dequeued_ns == second.dequeued_ns == first.received_ns + 5_000_000
    assert desk.channel.receive_now() is None


@pytest.mark.parametrize(("release", "taken"), [("receive_now", True), ("wake_senders", False)])
def test_a_full_queue_blocks_until_there_is_room_or_the_end(release: str, taken: bool) -> None:
    """A5.1: back-pressure, but never beyond shutdown."""
    desk = Desk(capacity_count=1)
    assert desk.channel.offer_request(desk.request())
    blocked = desk.request()
    assert not desk.channel.offer_request(blocked)
    asked = threading.Event()
    stopping = threading.Event()
    outcome: list[bool] = []

    def keep_waiting() -> bool:
        asked.set()
        return not stopping.is_set()

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


def test_callbacks_come_before_requests_and_the_end_behind_them() -> None:
    """A5.2, A5.5."""
    desk = Desk(capacity_count=1)
    request = desk.request()
    assert desk.channel.offer_request(request)
    desk.channel.send_shutdown()
    desk.channel.send_callback(nothing, request)
    assert desk.channel.has_callbacks
    received = [desk.channel.receive() for _ in range(3)]
    assert received == [CallbackRequest(nothing, request), request, SHUTDOWN]
    assert not desk.channel.has_callbacks


@pytest.mark.parametrize("item", ["request", "callback", "shutdown"])
def test_a_waiting_handler_is_woken_by_whatever_comes(item: str) -> None:
    """A5.2: no second wake-up is needed for the second queue."""
    desk = Desk()
    request = desk.request()
    received: list[Any] = []
    waiting = threading.Thread(target=lambda: received.append(desk.channel.receive()))
    waiting.start()
    if item == "request":
        desk.channel.offer_request(request)
    elif item == "callback":
        desk.channel.send_callback(nothing, request)
    else:
        desk.channel.send_shutdown()
    waiting.join(PATIENCE_S)
    expected = {"request": request, "callback": (nothing, request), "shutdown": SHUTDOWN}
    assert received == [expected[item]]


@pytest.mark.parametrize("inline", [True, False])
def test_a_callback_wakes_the_thread_that_runs_it(inline: bool) -> None:
    """A5.2, A11: the single loop sleeps in its poll."""
    desk = Desk(handles_inline=inline)
    desk.channel.send_callback(nothing, desk.request())
    assert desk.answers.wake_count == int(inline)


def test_a_response_goes_to_the_processor_of_its_connection() -> None:
    """A9: an answer is stamped, a remark about throttling is not."""
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
    """A5.3, A3.5."""
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
