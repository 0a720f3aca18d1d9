"""One request in a handler's hands (B-A5)."""

from __future__ import annotations

import pytest

from fastprod.broker.network.request import CloseConnectionResponse, Request
from fastprod.broker.network.request_handling import handle_request
from support.broker.request_samples import Desk, ListeningHandler


class MadeToFailError(Exception):
    """Raised by the tests."""


def test_a_request_is_stamped_before_and_after() -> None:
    """B-A9."""
    desk = Desk()
    request = desk.request()
    desk.clock.advance(5)
    handle_request(ListeningHandler(lambda _: desk.clock.advance(7)), request, desk.clock)
    assert request.dequeued_ns - request.received_ns == 5_000_000
    assert request.local_done_ns - request.received_ns == 12_000_000


@pytest.mark.parametrize("fails", [False, True])
def test_actions_are_completed_after_requests(fails: bool) -> None:
    """B-A5.6."""

    def do(request: Request) -> None:
        if fails:
            raise MadeToFailError

    desk = Desk()
    handler = ListeningHandler(do)
    handle_request(handler, desk.request(), desk.clock)
    assert handler.events == ["handle", "actions"]


def test_a_failure_is_told_and_may_be_answered() -> None:
    """B-A5.7."""

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
def test_a_failure_that_nobody_answers_ends_the_connection(failed_fails: bool) -> None:
    """B-A5.7: acks=0 knows no other signal."""

    class Failing(ListeningHandler):
        def failed(self, request: Request, error: Exception) -> None:
            if failed_fails:
                raise MadeToFailError

    def do(request: Request) -> None:
        raise MadeToFailError

    desk = Desk()
    handle_request(Failing(do), desk.request(), desk.clock)
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
    """B-A5.4: fatal errors."""

    class FatalError(BaseException):
        """Not to be handled."""

    def do(request: Request) -> None:
        raise FatalError

    desk = Desk()
    request = desk.request()
    with pytest.raises(FatalError):
        handle_request(ListeningHandler(do), request, desk.clock)
    assert request.local_done_ns >= 0
