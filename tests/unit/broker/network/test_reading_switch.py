"""A Processor that is told not to read (B-G2: the slow reader)."""

from __future__ import annotations

import socket

import pytest

from fastprod.broker.network.processor import Processor
from support.broker.processor_stage import (
    PATIENCE_S,
    ProcessorStage,
    exchange,
    payload,
    read_frame,
    request,
)
from support.processes.leak_guard import nothing_is_left as nothing_is_left


def switch(processor: Processor, is_on: bool) -> None:
    done = processor.reading.order(is_on)
    processor.wake()
    assert done.wait(PATIENCE_S)


def fill(client: socket.socket) -> None:
    while True:
        client.send(bytes(1 << 20))


def test_nothing_is_read_until_it_is_switched_on_again() -> None:
    with ProcessorStage() as stage:
        client = stage.connect()
        exchange(client)
        switch(stage.processor, False)
        client.sendall(request(b"later"))
        stage.turn()
        assert stage.metrics_of().request_count == 1
        switch(stage.processor, True)
        assert read_frame(client) == payload(b"later")


def test_connections_that_come_meanwhile_are_not_read_either() -> None:
    with ProcessorStage() as stage:
        switch(stage.processor, False)
        client = stage.connect()
        client.sendall(request(b"later"))
        stage.registered(client)
        stage.turn()
        assert stage.metrics_of().request_count == 0
        switch(stage.processor, True)
        assert read_frame(client) == payload(b"later")


@pytest.mark.parametrize("answered_while_off", [True, False])
def test_an_answer_goes_out_meanwhile_and_what_is_behind_it_waits(
    answered_while_off: bool,
) -> None:
    """B-A3.10: a connection that is muted for its own reasons stays so when all are read again."""
    with ProcessorStage(None) as stage:
        client = stage.connect()
        client.sendall(request(b"1") + request(b"2"))
        first = stage.next_request()
        switch(stage.processor, False)
        if answered_while_off:
            first.respond([b"one"])
            assert read_frame(client) == b"one"
            stage.no_request()
            switch(stage.processor, True)
        else:
            switch(stage.processor, True)
            stage.no_request()
            first.respond([b"one"])
            assert read_frame(client) == b"one"
        assert bytes(stage.next_request().frame) == payload(b"2")


def test_the_sender_is_held_up_when_the_sockets_are_full() -> None:
    with ProcessorStage() as stage:
        client = stage.connect()
        exchange(client)
        switch(stage.processor, False)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            fill(client)


def test_an_order_is_obeyed_by_a_processor_that_starts_or_ends() -> None:
    with ProcessorStage(started=False) as stage:
        before = stage.processor.reading.order(False)
        assert not before.is_set()
        stage.processor.start()
        assert before.wait(PATIENCE_S)
        client: socket.socket = stage.connect()
        client.sendall(request(b"never"))
        stage.registered(client)
        stage.turn()
        assert stage.metrics_of().request_count == 0
        at_end = stage.processor.reading.order(True)
        stage.processor.shutdown(PATIENCE_S)
        assert at_end.is_set()
