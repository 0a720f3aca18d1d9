"""A failure in any step of the loop costs one connection at most (B-A3.15)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from fastprod._core.io.server_selector import ServerSelector
from support.broker.processor_stage import (
    PATIENCE_S,
    FailingSelector,
    ProcessorStage,
    UncaughtErrors,
    exchange,
    is_closed,
    read_frame,
    request,
    reset,
)
from support.processes.leak_guard import nothing_is_left as nothing_is_left


class MadeToFailError(Exception):
    """Raised by the tests."""


@pytest.fixture
def selector() -> FailingSelector:
    return FailingSelector()


@pytest.fixture(params=[0, 1], ids=["inline", "pool"])
def stage(selector: FailingSelector, request: pytest.FixtureRequest) -> Iterator[ProcessorStage]:
    with ProcessorStage(selector=selector, threads=request.param) as opened:
        yield opened


def one_is_lost(stage: ProcessorStage, lost: object) -> None:
    """The other connections and the Processor go on; everything is uncounted in the end."""
    others = [client for client in stage.clients if client is not lost]
    for client in others:
        exchange(client)
    exchange(stage.connect())
    for client in stage.clients:
        client.close()
    stage.all_gone()


def test_a_connection_that_cannot_be_registered_is_closed(
    stage: ProcessorStage, selector: FailingSelector
) -> None:
    """B-A10.36 configureNewConnectionException, B-A3.1."""
    exchange(stage.connect())
    selector.fail("register", MadeToFailError())
    lost = stage.connect()
    assert is_closed(lost)
    one_is_lost(stage, lost)


@pytest.mark.parametrize(
    "failure", [MadeToFailError(), OSError(9, "closed"), BufferError("not a buffer")]
)
def test_a_response_that_cannot_be_sent_closes_the_connection(
    stage: ProcessorStage, selector: FailingSelector, failure: Exception
) -> None:
    """B-A10.37 processNewResponseException."""
    exchange(stage.connect())
    lost = stage.connect()
    selector.fail("send", failure)
    lost.sendall(request())
    assert is_closed(lost)
    one_is_lost(stage, lost)


def test_a_channel_that_vanished_before_the_send_is_only_counted(selector: FailingSelector) -> None:
    """B-A10.38 sendCancelledKeyException."""
    done: list[bool] = []
    with ProcessorStage(None, selector=selector) as stage:
        lost = stage.connect()
        lost.sendall(request())
        pending = stage.next_request()
        selector.fail("send", KeyError(pending.connection.channel_id))
        pending.respond([b"x"], on_complete=lambda: done.append(True))
        stage.until(lambda: done == [True])
        assert stage.metrics_of().request_count == 1
        lost.close()
        other = stage.connect()
        other.sendall(request())
        stage.next_request().respond([b"ok"])
        assert read_frame(other) == b"ok"


def test_a_request_that_cannot_be_queued_closes_the_connection(
    stage: ProcessorStage, selector: FailingSelector
) -> None:
    """B-A10.39 processCompletedReceiveException: its late answer is only counted."""
    exchange(stage.connect())
    lost = stage.connect()
    selector.fail("mute", MadeToFailError())
    lost.sendall(request())
    assert is_closed(lost)
    one_is_lost(stage, lost)
    assert stage.metrics_of().request_count == 4


def test_a_send_that_cannot_be_completed_closes_the_connection(
    stage: ProcessorStage, selector: FailingSelector
) -> None:
    """B-A10.40 processCompletedSendException: after the answer has gone out."""
    exchange(stage.connect())
    stage.turn()
    lost = stage.connect()
    selector.fail("unmute", MadeToFailError())
    exchange(lost)
    assert is_closed(lost)
    one_is_lost(stage, lost)


def test_a_disconnect_that_cannot_be_uncounted_stops_nothing(stage: ProcessorStage) -> None:
    """B-A10.41 processDisconnectedException; B-A10.58: the listeners are told all the same."""
    clients = [stage.connect() for _ in range(3)]
    for client in clients:
        exchange(client)
    stage.quotas.failure = MadeToFailError()
    clients[0].close()
    stage.until(lambda: stage.processor.closed_count == 1)
    one_is_lost(stage, clients[0])


def test_a_disconnect_listener_that_fails_stops_nothing(stage: ProcessorStage) -> None:
    """B-A10.41, B-A10.58."""

    def fail(_: object) -> None:
        raise MadeToFailError

    stage.processor._disconnect_listeners = (fail, *stage.processor._disconnect_listeners)
    client = stage.connect()
    exchange(client)
    client.close()
    stage.all_gone()
    exchange(stage.connect())


@pytest.mark.parametrize("told", [FailingSelector.fail, FailingSelector.fail_after])
@pytest.mark.parametrize(
    "failure", [OSError(9, "bad descriptor"), MemoryError(), RuntimeError("other")]
)
def test_a_poll_that_fails_is_followed_by_the_next(
    stage: ProcessorStage,
    selector: FailingSelector,
    failure: Exception,
    told: Callable[[FailingSelector, str, BaseException], None],
) -> None:
    """B-A10.42 pollException, B-A3.6."""
    client = stage.connect()
    exchange(client)
    stage.turn()
    told(selector, "poll", failure)
    stage.turn()
    exchange(client)
    one_is_lost(stage, None)


class Control(BaseException):
    """What no loop may swallow."""


def test_a_control_flow_error_ends_the_processor(selector: FailingSelector) -> None:
    """B-A10.43 controlThrowable: the selector is closed, one uncaught error is seen."""
    with UncaughtErrors() as uncaught, ProcessorStage(selector=selector) as stage:
        client = stage.connect()
        exchange(client)
        selector.fail("poll", Control())
        stage.processor.wake()
        assert is_closed(client)
        stage.until(lambda: stage.processor.has_ended)
        stage.until(lambda: len(uncaught.errors) == 1)
        stage.all_gone()
        assert selector.is_closed
        _, server = stage.pair()
        assert not stage.processor.accept(server, may_block=True)
        server.close()
        stage.processor.shutdown(PATIENCE_S)
    assert [type(error) for error in uncaught.errors] == [Control]


def test_a_handler_thread_survives_what_it_handles() -> None:
    """B-A5.4."""

    def fail(_: object) -> None:
        raise MadeToFailError

    with ProcessorStage(fail, threads=1) as stage:
        for _ in range(3):
            client = stage.connect()
            client.sendall(request())
            assert is_closed(client)
        assert [type(error) for error in stage.handler.failures] == [MadeToFailError] * 3
        stage.until(lambda: stage.handler.actions == 3)


def test_a_callback_that_fails_stops_nothing() -> None:
    """B-A3.5."""

    def fail() -> None:
        raise MadeToFailError

    with ProcessorStage(lambda pending: pending.respond([b"ok"], on_complete=fail)) as stage:
        client = stage.connect()
        for _ in range(3):
            client.sendall(request())
            assert read_frame(client) == b"ok"


def test_a_full_request_queue_stalls_the_network_thread_until_the_stop() -> None:
    """B-A5.1: TCP is the back-pressure; shutdown is not held up."""
    with ProcessorStage(None, threads=1, queue_capacity=1, started=False) as stage:
        assert stage.pool is not None
        stage.pool.shutdown(PATIENCE_S)
        clients = [stage.connect() for _ in range(3)]
        for client in clients:
            client.sendall(request())
        stage.processor.start()
        stage.until(lambda: stage.channel.request_queue_size == 1)
        stage.processor.wake()
        stage.processor.shutdown(PATIENCE_S)
        assert all(is_closed(client) for client in clients)
        stage.all_gone()


def test_a_thread_that_handles_its_requests_waits_for_no_room_in_the_queue() -> None:
    """B-A5.1, B-A11: the single loop cannot wait for itself."""
    with ProcessorStage(queue_capacity=1, started=False) as stage:
        clients = [stage.connect() for _ in range(5)]
        for client in clients:
            client.sendall(request(b"x"))
        stage.processor.start()
        for client in clients:
            assert len(read_frame(client)) == 9
            exchange(client)


def test_a_peer_that_reset_before_it_was_registered_is_uncounted(stage: ProcessorStage) -> None:
    """B-A3.1: by the address that accept(2) told."""
    client, server = stage.pair()
    address = client.getsockname()
    reset(client)
    with contextlib.suppress(OSError):
        server.getpeername()
    stage.quotas.inc(address[0])
    assert stage.processor.accept(server, False, address)
    stage.all_gone()


def test_a_socket_that_knows_no_address_stays_the_callers(stage: ProcessorStage) -> None:
    client, server = stage.pair()
    reset(client)
    with pytest.raises(OSError, match="not connected"):
        stage.processor.accept(server, may_block=False)
    server.close()


def test_the_selector_is_closed_with_the_processor() -> None:
    with ProcessorStage(selector=ServerSelector()) as stage:
        exchange(stage.connect())
    with pytest.raises(ValueError, match="closed"):
        stage.processor._selector.poll(0)
