"""Requests handled by the thread that reads them (A11)."""

from __future__ import annotations

from fastprod.broker.inline_handling import InlineHandling
from fastprod.broker.request import Request
from request_samples import Desk, ListeningHandler


def test_as_many_requests_are_handled_as_were_given() -> None:
    """Another thread's may be among them; it will find as many."""
    desk = Desk()
    handler = ListeningHandler()
    inline = InlineHandling(desk.channel, handler, desk.clock)
    others, own = desk.request(), desk.request()
    assert desk.channel.offer_request(others)
    inline.send_request(own)
    inline.handle(1)
    assert handler.handled == [others]
    inline.handle(1)
    assert handler.handled == [others, own]
    inline.handle(1)
    assert len(handler.handled) == 2


def test_a_full_queue_is_made_room_in_by_its_only_handler() -> None:
    """A5.1."""
    desk = Desk(capacity_count=1)
    handler = ListeningHandler()
    inline = InlineHandling(desk.channel, handler, desk.clock)
    requests = [desk.request() for _ in range(3)]
    for request in requests:
        inline.send_request(request)
    assert handler.handled == requests[:2]
    assert desk.channel.request_queue_size == 1


def test_every_callback_runs_before_the_thread_sleeps() -> None:
    """A5.2: also those that a callback or a request leaves behind."""
    desk = Desk()
    ran: list[str] = []

    def do(request: Request) -> None:
        desk.channel.send_callback(lambda: ran.append("of a request"), request)

    inline = InlineHandling(desk.channel, ListeningHandler(do), desk.clock)
    request = desk.request()

    def first() -> None:
        ran.append("first")
        desk.channel.send_callback(lambda: ran.append("second"), request)

    desk.channel.send_callback(first, request)
    inline.send_request(request)
    assert inline.has_work
    inline.handle(1)
    assert ran == ["first", "second", "of a request"]
    assert not inline.has_work
