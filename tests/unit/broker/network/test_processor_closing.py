"""Connections that end by the client, by idleness or by a failed send (B-A3.4, B-A4.4, B-A4.5)."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Callable

import pytest

from fastprod._core.io.server_selector import ServerSelector
from fastprod.broker.network.request import Request
from support.broker.processor_stage import (
    SETTINGS,
    FailingSelector,
    ProcessorStage,
    framed,
    is_closed,
    payload,
    read_frame,
    request,
    reset,
)
from support.processes.leak_guard import nothing_is_left as nothing_is_left

IDLE_MS = 500
SHORT = dataclasses.replace(SETTINGS, connections_max_idle_ms=IDLE_MS)
INCOMPLETE = request(b"never whole")[:-1]


@pytest.fixture(params=["inline-epoll", "inline-poll", "pool-epoll", "pool-poll"])
def ways(request: pytest.FixtureRequest) -> dict[str, object]:
    """How a stage may run."""
    mode, backend = request.param.split("-")
    return {
        "threads": 1 if mode == "pool" else 0,
        "selector": ServerSelector(1 << 20, backend == "poll"),
    }


def make(answer: Callable[[Request], None] | None, ways: dict[str, object]) -> ProcessorStage:
    return ProcessorStage(answer, **ways)  # type: ignore[arg-type]


def is_served(client: socket.socket) -> bool:
    """Whether one more request is answered; False: the connection is closed."""
    try:
        client.sendall(request(b"ping"))
        answer = client.recv(1 << 10)
    except ConnectionError:
        return False
    assert answer in (b"", framed(payload(b"ping")))
    return answer != b""


# Idle.


def test_a_quiet_connection_expires_and_a_busy_one_does_not(ways: dict[str, object]) -> None:
    """B-A10.12 testIdleConnection, B-A4.4: without anybody's wake-up."""
    with ProcessorStage(settings=SHORT, **ways) as stage:  # type: ignore[arg-type]
        used_at = time.monotonic()
        quiet, busy = stage.connect(), stage.connect()
        quiet.settimeout(0)
        while True:
            idle_since, used_at = used_at, time.monotonic()
            if not is_served(busy):
                # It may go only if this thread was kept from using it.
                assert time.monotonic() - idle_since >= IDLE_MS / 1000
                busy = stage.connect()
            with contextlib.suppress(BlockingIOError):
                assert quiet.recv(1) == b""
                break
        stage.until(lambda: stage.processor.closed_count >= 1)
        assert stage.processor.expired_count >= 1
        stage.all_gone()  # in the end the other is idle too
        assert stage.processor.expired_count == stage.processor.created_count


def test_a_connection_expires_while_its_request_is_processed(ways: dict[str, object]) -> None:
    """B-A10.12, B-A4.4: muted ones are not exempt, and what they sent since is dropped."""
    done: list[bool] = []
    with ProcessorStage(None, settings=SHORT, **ways) as stage:  # type: ignore[arg-type]
        client, server = stage.pair()
        client.sendall(request(b"1") + request(b"2") + INCOMPLETE)
        stage.hand_over(server)
        pending = stage.next_request()
        assert is_closed(client)
        stage.all_gone()
        assert stage.processor.expired_count == 1
        pending.respond([b"too late"], on_complete=lambda: done.append(True))
        stage.until(lambda: stage.metrics_of().request_count == 1)
        stage.no_request()
        assert done == [True]


def test_unread_requests_do_not_keep_a_muted_connection_alive(ways: dict[str, object]) -> None:
    """B-A10.47 idleExpiryWithBufferedReceives: polls that find its bytes do not refresh it."""
    with ProcessorStage(None, settings=SHORT, **ways) as stage:  # type: ignore[arg-type]
        client, server = stage.pair()
        client.sendall(request(b"1") + request(b"2"))
        stage.hand_over(server)
        stage.next_request()
        client.settimeout(0)
        with contextlib.suppress(ConnectionError):
            while True:
                with contextlib.suppress(BlockingIOError):
                    assert client.recv(1) == b""
                    break
                with contextlib.suppress(BlockingIOError):
                    client.send(request(b"more"))
                stage.processor.wake()
        stage.all_gone()
        assert stage.processor.expired_count == 1


def test_what_was_buffered_while_muted_is_delivered_without_new_bytes(
    ways: dict[str, object],
) -> None:
    """B-A10.48 testUnmuteChannelWithBufferedReceives."""
    with make(None, ways) as stage:
        client = stage.connect()
        client.sendall(b"".join(request(b"%d" % i) for i in range(4)))
        for i in range(4):
            pending = stage.next_request()
            assert bytes(pending.frame) == payload(b"%d" % i)
            stage.no_request()
            pending.respond(None)


# The client leaves.


@pytest.mark.parametrize(
    ("complete", "incomplete", "responds_at", "ending"),
    [
        pytest.param(3, False, None, "close", id="remoteCloseWithCompleteBufferedReceives"),
        pytest.param(0, True, None, "close", id="remoteCloseWithIncompleteBufferedReceive"),
        pytest.param(
            3, True, None, "close", id="remoteCloseWithCompleteAndIncompleteBufferedReceives"
        ),
        pytest.param(3, False, 1, "reset", id="remoteCloseWithBufferedReceivesFailedSend"),
        pytest.param(
            3, True, None, "reset", id="closingChannelWithCompleteAndIncompleteBufferedReceives"
        ),
        pytest.param(3, False, 1, "closing", id="closingChannelWithBufferedReceivesFailedSend"),
        pytest.param(0, False, None, "close", id="remoteCloseWithoutBufferedReceives"),
        pytest.param(3, False, None, "closing", id="closingChannelWithBufferedReceives"),
    ],
)
def test_buffered_requests_are_processed_until_a_send_fails(
    complete: int, incomplete: bool, responds_at: int | None, ending: str, ways: dict[str, object]
) -> None:
    """B-A10.46, B-A4.5, B-A3.4: all the complete ones, in order, and then the connection goes.

    reset: the client is killed. closing: it closes and has the next answer refused. Then the first
    send that fails ends the connection, and what is still buffered is not processed.
    """
    with make(None, ways) as stage:
        other, client = stage.connect(), stage.connect()
        stage.registered(client)
        client.sendall(b"".join(request(b"%d" % i) for i in range(complete)))
        if incomplete:
            client.sendall(INCOMPLETE)
        # The first is being processed while the client leaves; the others are buffered.
        pending = stage.next_request() if complete else None
        if ending == "close":
            client.close()
        else:
            reset(client)
        processed = 0
        while pending is not None:
            assert bytes(pending.frame) == payload(b"%d" % processed)
            if processed == responds_at:
                pending.respond([b"nobody reads this"])
                processed += 1
                break
            pending.respond(None)
            processed += 1
            pending = stage.next_request() if processed < complete else None
        stage.until(lambda: stage.processor.closed_count == 1)
        assert processed == (complete if responds_at is None else responds_at + 1)
        assert stage.handler.received.empty()
        stage.until(lambda: stage.metrics_of().request_count == processed)
        other.sendall(request(b"x"))
        stage.next_request().respond([b"ok"])
        assert read_frame(other) == b"ok"
        other.close()
        stage.all_gone()


def test_outstanding_requests_are_served_until_a_send_fails(ways: dict[str, object]) -> None:
    """B-A10.31: the client closes with many requests unanswered; all is cleaned up once."""
    with make(None, ways) as stage:
        client = stage.connect()
        client.sendall(b"".join(request(b"%d" % i) for i in range(100)))
        stage.next_request().respond([b"first"])
        assert read_frame(client) == b"first"
        client.close()
        served = 1
        while stage.processor.closed_count == 0:
            with contextlib.suppress(Exception):
                stage.handler.received.get(timeout=0.01).respond([bytes(1000)])
                served += 1
        assert 2 <= served <= 100
        stage.all_gone()
        stage.until(lambda: stage.metrics_of().request_count == served)


def failed_send(stage: ProcessorStage, buffered: bool) -> None:
    client = stage.connect()
    client.sendall(request(b"1") + (request(b"2") if buffered else b""))
    pending = stage.next_request()
    reset(client)
    done: list[bool] = []
    pending.respond([b"x"], on_complete=lambda: done.append(True))
    stage.all_gone()
    stage.until(lambda: done == [True])
    assert stage.handler.received.empty()
    assert stage.metrics_of().request_count == 1
    assert stage.processor.outgoing_bytes == 0


def test_a_send_to_a_client_that_left_cleans_up_once(ways: dict[str, object]) -> None:
    """B-A3.13, B-A10.44 remoteCloseSendFailure, B-A3.5."""
    with make(None, ways) as stage:
        failed_send(stage, buffered=False)


def test_a_send_on_a_closing_channel_cleans_up_once(ways: dict[str, object]) -> None:
    """B-A3.13, B-A10.45 closingChannelSendFailure: requests that it sent before are dropped."""
    with make(None, ways) as stage:
        failed_send(stage, buffered=True)


@pytest.mark.parametrize("size", [0, 550_000])
def test_requests_of_a_client_that_left_are_counted(size: int, ways: dict[str, object]) -> None:
    """B-A10.29 testClientDisconnectionUpdatesRequestMetrics."""
    with make(None, ways) as stage:
        client = stage.connect(receive_buffer_bytes=4096)
        client.sendall(request())
        pending = stage.next_request()
        pending.respond([bytes(size)])
        if size:
            stage.until(lambda: stage.processor.in_flight_count == 1)
        reset(client)
        stage.until(lambda: stage.metrics_of().request_count == 1)
        stage.all_gone()
        assert pending.sent_ns >= pending.response_dequeued_ns >= pending.response_enqueued_ns


def test_an_answer_after_the_end_is_only_counted(ways: dict[str, object]) -> None:
    """B-A10.32 testBrokerSendAfterChannelClosedUpdatesRequestMetrics, B-A3.4."""
    with make(None, ways) as stage:
        for index, answer in enumerate((b"late", None)):
            client = stage.connect()
            client.sendall(request())
            pending = stage.next_request()
            stage.quotas.exceeded = True
            stage.processor.wake()
            assert is_closed(client)
            stage.quotas.exceeded = False
            stage.until(lambda pending=pending: not pending.connection.is_open)  # type: ignore[misc]
            pending.respond(None if answer is None else [answer])
            count = index + 1
            stage.until(lambda count=count: stage.metrics_of().request_count == count)  # type: ignore[misc]
        stage.all_gone()


def test_a_large_answer_to_a_slow_reader_is_whole_and_holds_nobody_up(
    ways: dict[str, object],
) -> None:
    """B-A4.2, B-A3.12: the rest goes out in later polls; other connections are served meanwhile."""
    with make(None, ways) as stage:
        slow, other = stage.connect(receive_buffer_bytes=4096), stage.connect()
        slow.sendall(request(b"1") + request(b"2"))
        large = bytes(range(256)) * 8192
        first = stage.next_request()
        first.respond([large, b"end"])
        stage.until(lambda: stage.processor.in_flight_count == 1)
        stage.no_request()
        other.sendall(request())
        stage.next_request().respond([b"quick"])
        assert read_frame(other) == b"quick"
        assert read_frame(slow) == large + b"end"
        assert bytes(stage.next_request().frame) == payload(b"2")


def test_a_second_send_while_one_is_pending_ends_the_connection(ways: dict[str, object]) -> None:
    """B-A4.3: a bug of the broker; both answers are counted and completed."""
    done: list[str] = []
    with make(None, ways) as stage:
        client, other = stage.connect(receive_buffer_bytes=4096), stage.connect()
        client.sendall(request())
        pending = stage.next_request()
        pending.respond([bytes(1 << 22)], on_complete=lambda: done.append("first"))
        stage.until(lambda: stage.processor.in_flight_count == 1)
        pending.answered = False
        pending.respond([b"x"], on_complete=lambda: done.append("second"))
        stage.until(lambda: sorted(done) == ["first", "second"])
        stage.until(lambda: stage.processor.closed_count == 1)
        other.sendall(request())
        stage.next_request().respond([b"ok"])
        assert read_frame(other) == b"ok"


def test_the_next_expiry_ends_the_wait(ways: dict[str, object]) -> None:
    """B-A4.4: nobody polls periodically; the poll itself knows how long it may sleep."""
    selector = FailingSelector()
    ways["selector"] = selector
    with ProcessorStage(settings=SHORT, **ways) as stage:  # type: ignore[arg-type]
        started = time.monotonic()
        assert is_closed(stage.connect())
        assert (time.monotonic() - started) * 1000 >= IDLE_MS / 2
        assert selector.last_timeout_ms in (-1, 0)
