"""Throttled connections (B-A6) and the mute states they go through (B-A3.11)."""

from __future__ import annotations

import itertools

import pytest

from fastprod.broker.network.mute_state import MuteState
from fastprod.broker.network.request import (
    EndThrottlingResponse,
    NoOpResponse,
    Request,
    SendResponse,
    StartThrottlingResponse,
)
from fastprod.broker.threads.clock import FakeClock
from support.broker.processor_stage import ProcessorStage, framed, payload, read_frame, request
from support.processes.leak_guard import nothing_is_left as nothing_is_left

MUTED_IN_BETWEEN = {
    (True, True): MuteState.MUTED_AND_THROTTLED,
    (True, False): MuteState.NOT_MUTED,
    (False, True): MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    (False, False): MuteState.MUTED_AND_RESPONSE_PENDING,
}


def answer(stage: ProcessorStage, pending: Request, sends: bool) -> None:
    answer = b"answer"
    if sends:
        stage.channel.send_response(SendResponse(pending, [framed(answer)], len(answer) + 4))
    else:
        stage.channel.send_response(NoOpResponse(pending))


@pytest.mark.parametrize("threads", [0, 1], ids=["inline", "pool"])
@pytest.mark.parametrize(
    ("sends", "still_throttled"), list(itertools.product((True, False), (True, False)))
)
def test_reading_goes_on_after_the_answer_and_the_throttle(
    sends: bool, still_throttled: bool, threads: int
) -> None:
    """B-A10.14-17: {Send, NoOp} x {throttle still running, throttle already over}."""
    with ProcessorStage(None, threads=threads) as stage:
        client = stage.connect()
        client.sendall(request(b"1") + request(b"2"))
        pending = stage.next_request()
        connection = pending.connection
        states: list[MuteState] = []

        def look() -> None:
            stage.turn()
            states.append(connection.mute_state)
            assert stage.handler.received.empty()

        look()
        stage.channel.send_response(StartThrottlingResponse(pending))
        look()
        if still_throttled:
            answer(stage, pending, sends)
            if sends:
                assert read_frame(client) == b"answer"
            look()
            stage.channel.send_response(EndThrottlingResponse(pending))
        else:
            stage.channel.send_response(EndThrottlingResponse(pending))
            look()
            answer(stage, pending, sends)
            if sends:
                assert read_frame(client) == b"answer"
        assert bytes(stage.next_request().frame) == payload(b"2")
        assert states == [
            MuteState.MUTED_AND_RESPONSE_PENDING,
            MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
            MUTED_IN_BETWEEN[still_throttled, True]
            if still_throttled
            else MuteState.MUTED_AND_RESPONSE_PENDING,
        ]


@pytest.mark.parametrize("threads", [0, 1], ids=["inline", "pool"])
def test_the_answer_goes_out_at_once_and_the_next_request_waits(threads: int) -> None:
    """B-A6.1, KIP-219: until the throttle that it named is over."""
    clock = FakeClock()
    with ProcessorStage(None, threads=threads, clock=clock) as stage:
        client = stage.connect()
        client.sendall(request(b"1") + request(b"2"))
        pending = stage.next_request()
        pending.respond([b"slow down"], throttle_ms=1000)
        assert read_frame(client) == b"slow down"
        stage.turn()
        clock.advance(999)
        stage.no_request()
        clock.advance(1)
        assert bytes(stage.next_request().frame) == payload(b"2")
        assert stage.metrics_of().throttle_ns.total == 1_000_000_000


def test_a_throttle_ends_by_the_computers_clock_without_a_wake() -> None:
    """B-A6.1: the poll sleeps until then, no longer."""
    with ProcessorStage(lambda pending: pending.respond([b"ok"], throttle_ms=20)) as stage:
        client = stage.connect()
        for _ in range(3):
            client.sendall(request())
            assert read_frame(client) == b"ok"


def test_a_throttled_connection_that_leaves_is_forgotten() -> None:
    """B-A6.1: the throttle's end finds nobody."""
    clock = FakeClock()
    with ProcessorStage(None, clock=clock) as stage:
        client, other = stage.connect(), stage.connect()
        client.sendall(request())
        pending = stage.next_request()
        stage.channel.send_response(StartThrottlingResponse(pending, 1000))
        pending.close_connection()
        stage.until(lambda: stage.processor.closed_count == 1)
        clock.advance(1000)
        stage.channel.send_response(StartThrottlingResponse(pending))
        stage.channel.send_response(EndThrottlingResponse(pending))
        other.sendall(request(b"x"))
        stage.next_request().respond([b"still here"])
        assert read_frame(other) == b"still here"


def test_an_end_without_a_start_costs_the_connection_alone() -> None:
    """B-A3.11: a bug of the broker."""
    with ProcessorStage(None) as stage:
        client, other = stage.connect(), stage.connect()
        client.sendall(request())
        stage.channel.send_response(EndThrottlingResponse(stage.next_request()))
        stage.until(lambda: stage.processor.closed_count == 1)
        other.sendall(request())
        stage.next_request().respond([b"ok"])
        assert read_frame(other) == b"ok"
