"""A request and its one answer."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.network.request import (
    CloseConnectionResponse,
    NoOpResponse,
    SendResponse,
    StartThrottlingResponse,
    complete,
    produce_first,
)
from fastprod.errors import IllegalStateError
from support.broker.request_samples import Desk


def test_an_answer_gets_its_size_and_is_not_copied() -> None:
    desk = Desk()
    part = bytearray(b"body")
    desk.request().respond([b"head", memoryview(part)])
    (sent,) = desk.answers.responses
    assert isinstance(sent, SendResponse)
    part[0:1] = b"B"
    assert b"".join(map(bytes, sent.parts)) == b"\0\0\0\x08headBody"
    assert sent.size_bytes == 12


def test_an_empty_answer_is_an_answer() -> None:
    desk = Desk()
    desk.request().respond([])
    (sent,) = desk.answers.responses
    assert isinstance(sent, SendResponse)
    assert b"".join(map(bytes, sent.parts)) == b"\0\0\0\0"


def test_nothing_to_say_is_said_as_such() -> None:
    """B-A6.3, B-A3.3."""
    desk = Desk()
    desk.request().respond(None)
    desk.request().close_connection()
    assert [type(each) for each in desk.answers.responses] == [
        NoOpResponse,
        CloseConnectionResponse,
    ]


@pytest.mark.parametrize("parts", [None, [b"x"]])
def test_a_throttle_is_told_before_the_answer(parts: list[bytes] | None) -> None:
    """B-A6.1."""
    desk = Desk()
    request = desk.request()
    request.respond(parts, throttle_ms=70)
    start, answer = desk.answers.responses
    assert isinstance(start, StartThrottlingResponse)
    assert start.throttle_ms == request.throttle_ms == 70
    assert (start.is_answer, answer.is_answer) == (False, True)


def test_a_request_is_answered_once() -> None:
    desk = Desk()
    for first in ("respond", "close_connection"):
        request = desk.request()
        if first == "respond":
            request.respond([b"x"])
        else:
            request.close_connection()
        assert request.answered
        for again in (lambda r=request: r.respond(None), request.close_connection):
            with pytest.raises(IllegalStateError, match="answered before"):
                again()
    assert len(desk.answers.responses) == 2


def test_completion_happens_once_and_its_failure_is_its_own() -> None:
    """B-A3.5."""
    desk = Desk()
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise RuntimeError("made to fail")

    desk.request().respond([b"x"], on_complete=fail)
    (sent,) = desk.answers.responses
    complete(sent)
    complete(sent)
    assert calls == [1]


def test_what_is_logged_of_a_request_holds_nothing_of_its_body() -> None:
    """RequestChannelTest (B-A10): secrets and records are masked by not being there."""
    request = Desk().request(b"12345678password=hunter2", key=33, version=2)
    assert repr(request) == (
        "Request(api_key=33, version=2, correlation_id=7, client_id='client', 24 bytes, c)"
    )


def test_produce_goes_before_the_rest_in_the_order_in_which_it_came() -> None:
    produce, fetch, versions = b"\0\0\0\x0d", b"\0\x01\0\x12", b"\0\x12\0\x04"
    came = (versions, produce + b"1", fetch, produce + b"2", b"")
    frames: list[Any] = [bytearray(each) for each in came]
    first, then = produce_first(frames)
    assert [bytes(each) for each in first] == [produce + b"1", produce + b"2"]
    assert [bytes(each) for each in then] == [versions, fetch, b""]
    assert [*produce_first([])] == [[]]
    assert [*produce_first(frames[:1])] == [frames[:1]]
