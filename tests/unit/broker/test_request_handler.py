"""One request, or one callback, in a handler's hands: KafkaRequestHandlerTest (A10)."""

from __future__ import annotations

import threading

import pytest

from fastprod.broker.request import CloseConnectionResponse, Request
from fastprod.broker.request_channel import CallbackRequest
from fastprod.broker.request_handler import handle_callback, handle_request, wrap_async_callback
from request_samples import Desk, ListeningHandler


class MadeToFailError(Exception):
    """Raised by the tests."""


def test_a_callback_called_in_the_handler_runs_at_once() -> None:
    """KafkaRequestHandlerTest.testCallbackOnSameThread, A5.2."""
    desk = Desk()
    seen: list[object] = []

    def do(request: Request) -> None:
        wrap_async_callback(desk.channel, request, seen.append)("result")
        seen.append("after")

    handle_request(ListeningHandler(do), desk.request(), desk.clock)
    assert seen == ["result", "after"]
    assert not desk.channel.has_callbacks


def test_a_callback_called_by_another_thread_is_queued() -> None:
    """KafkaRequestHandlerTest.testHandlingCallbackOnNewThread, A5.2."""
    desk = Desk()
    handler = ListeningHandler()
    request = desk.request()
    seen: list[object] = []
    resume = wrap_async_callback(desk.channel, request, seen.append)
    handle_request(handler, request, desk.clock)
    other = threading.Thread(target=resume, args=("result",))
    other.start()
    other.join()
    assert seen == []
    item = desk.channel.receive_now()
    assert isinstance(item, CallbackRequest)
    handle_callback(handler, item, desk.clock)
    assert seen == ["result"]


def test_a_callback_called_while_another_request_is_handled_is_queued() -> None:
    """A5.2: the thread is right, the request is not."""
    desk = Desk()
    first = desk.request()
    resume = wrap_async_callback(desk.channel, first, lambda: None)
    handle_request(ListeningHandler(lambda _: resume()), desk.request(), desk.clock)
    assert desk.channel.has_callbacks


def test_a_callback_of_a_callback_runs_at_once() -> None:
    desk = Desk()
    request = desk.request()
    seen: list[str] = []
    inner = wrap_async_callback(desk.channel, request, lambda: seen.append("inner"))
    handle_callback(ListeningHandler(), CallbackRequest(inner, request), desk.clock)
    assert seen == ["inner"]


def test_the_time_of_callbacks_is_counted_apart() -> None:
    """KafkaRequestHandlerTest.testCallbackTiming: several add up."""
    desk = Desk()
    request = desk.request()
    handle_request(ListeningHandler(lambda _: desk.clock.advance(7)), request, desk.clock)
    assert request.local_done_ns == 7_000_000
    for ms in (2, 3):
        desk.clock.advance(100)
        callback = CallbackRequest(lambda ms=ms: desk.clock.advance(ms), request)  # type: ignore[misc]
        handle_callback(ListeningHandler(), callback, desk.clock)
    assert request.callback_ns == 5_000_000
    assert request.local_done_ns == 7_000_000


@pytest.mark.parametrize("fails", [False, True])
def test_actions_are_completed_after_requests_and_callbacks(fails: bool) -> None:
    """KafkaRequestHandlerTest.testCallbackTryCompleteActions, A5.6."""

    def do(request: Request) -> None:
        if fails:
            raise MadeToFailError

    desk = Desk()
    handler = ListeningHandler(do)
    request = desk.request()
    handle_request(handler, request, desk.clock)
    callback = CallbackRequest(lambda: handler.events.append("callback"), request)
    handle_callback(handler, callback, desk.clock)
    assert handler.events == ["handle", "actions", "callback", "actions"]


def test_a_failure_is_told_and_may_be_answered() -> None:
    """A5.7."""

    class Answering(ListeningHandler):
        def failed(self, request: Request, error: Exception) -> None:
            super().failed(request, error)
            request.respond([b"error"])

    def do(request: Request) -> None:
        raise MadeToFailError

    desk = Desk()
    handler = Answering(do)
    request = desk.request()
    handle_request(handler, request, desk.clock)
    assert [(each, type(error)) for each, error in handler.failures] == [(request, MadeToFailError)]
    assert len(desk.answers.responses) == 1
    assert request.local_done_ns >= 0


@pytest.mark.parametrize("failed_fails", [False, True])
@pytest.mark.parametrize("where", ["request", "callback"])
def test_a_failure_that_nobody_answers_ends_the_connection(where: str, failed_fails: bool) -> None:
    """A5.7: acks=0 knows no other signal."""

    class Failing(ListeningHandler):
        def failed(self, request: Request, error: Exception) -> None:
            if failed_fails:
                raise MadeToFailError

    def do(request: Request) -> None:
        raise MadeToFailError

    desk = Desk()
    request = desk.request()
    if where == "request":
        handle_request(Failing(do), request, desk.clock)
    else:
        handle_callback(Failing(), CallbackRequest(lambda: do(request), request), desk.clock)
    assert [type(each) for each in desk.answers.responses] == [CloseConnectionResponse]


def test_a_failure_after_the_answer_changes_nothing() -> None:
    def do(request: Request) -> None:
        request.respond([b"x"])
        raise MadeToFailError

    desk = Desk()
    handle_request(ListeningHandler(do), desk.request(), desk.clock)
    assert len(desk.answers.responses) == 1


def test_actions_that_fail_stop_nothing() -> None:
    class Failing(ListeningHandler):
        def try_complete_actions(self) -> None:
            raise MadeToFailError

    desk = Desk()
    handle_request(Failing(Request.close_connection), desk.request(), desk.clock)
    assert len(desk.answers.responses) == 1


def test_what_ends_threads_is_not_swallowed() -> None:
    """A5.4: fatal errors."""

    class FatalError(BaseException):
        """Not to be handled."""

    def do(request: Request) -> None:
        raise FatalError

    desk = Desk()
    request = desk.request()
    with pytest.raises(FatalError):
        handle_request(ListeningHandler(do), request, desk.clock)
    assert request.local_done_ns >= 0
