"""A spare connection that takes the place of a node's own, step by step (P-G.10.7).

What a connection does by itself needs a peer: tests/faults.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fastprod._core.engine.control_queue import EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE
from support.engine.sender_steps import (
    TOPIC,
    VERSION,
    Steps,
    known,
    offset,
    partition_answer,
    produce_response,
)
from support.oracle import kio_codec

NODE, SPARE = 0, 1
WAIT_S = 10.0


class FarEnd:
    """The broker's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(WAIT_S)

    def take(self) -> tuple[int, int]:
        """API key and correlation id of the next request."""
        (size,) = struct.unpack(">i", self._receive(4))
        header = kio_codec.request_header(self._receive(size))
        return header.api_key, header.correlation_id

    def answer(self, correlation_id: int, base_offset: int) -> None:
        """Tell where the one record of a Produce request is."""
        told = {TOPIC: [partition_answer(0, base_offset=base_offset)]}
        body = struct.pack(">i", correlation_id) + produce_response(VERSION, told)
        self.sock.sendall(struct.pack(">i", len(body)) + body)

    def reply(self, correlation_id: int) -> None:
        """Answer a control request with nothing."""
        self.sock.sendall(struct.pack(">ii", 4, correlation_id))

    @property
    def is_silent(self) -> bool:
        """Whether nothing came."""
        self.sock.setblocking(False)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            self.sock.settimeout(WAIT_S)

    @property
    def is_closed(self) -> bool:
        """Whether the producer has closed it, with nothing before that."""
        return self.sock.recv(1) == b""

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.sock.recv(size - len(found))
            assert part
            found += part
        return found


class Stage:
    """A node with a spare connection."""

    def __init__(self, sockets: ExitStack) -> None:
        self.sender: Steps = known()
        self.door = self.sender.door
        self.door.now_ms = time.monotonic_ns() / 1e6  # sockets go by the true time
        self.ends: list[FarEnd] = []
        for slot in (NODE, SPARE):
            near, far = socket.socketpair()
            self.ends.append(FarEnd(sockets.enter_context(far)))
            if slot == NODE:
                self.door.connect_socket(NODE, near.detach())
            else:
                self.door.connect_spare(SPARE, NODE, near.detach())
        self.door.events()

    def ask_on_spare(self) -> int:
        """One control request there and its answer; returns its correlation id."""
        self.control(SPARE, 1)
        _, correlation_id = self.ends[SPARE].take()
        self.ends[SPARE].reply(correlation_id)
        self.door.poll()
        (answer,) = self.sender.events(EventKind.ON_RESPONSE)
        assert answer.token == 1
        return correlation_id

    def control(self, slot: int, token: int) -> None:
        frame = struct.pack(">ihhih", 10, API_VERSIONS, 0, 0, -1)
        self.sender.engine.send_frame(slot, token, frame)
        self.door.obey()

    def swap(self, version: int = VERSION) -> None:
        self.sender.engine.swap(SPARE, version)
        self.door.obey()

    def events(self) -> list[tuple[int, int]]:
        """Kind and slot of those that concern connections."""
        found = [(event.kind, event.slot) for event in self.door.events()]
        return [each for each in found if each[0] != EventKind.ON_METADATA_WANTED]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ExitStack() as sockets:
        yield Stage(sockets)


def test_with_nothing_in_flight_it_is_swapped_at_once(stage: Stage) -> None:
    last = stage.ask_on_spare()
    stage.swap()
    assert stage.events() == [(EventKind.ON_SWAPPED, SPARE)]
    assert stage.ends[NODE].is_closed
    future = stage.sender.send()
    assert stage.door.serve(NODE) == 1
    api_key, correlation_id = stage.ends[SPARE].take()
    assert (api_key, correlation_id) == (PRODUCE, last + 1), "the connection's own count goes on"
    stage.ends[SPARE].answer(correlation_id, 7)
    stage.door.poll()
    assert offset(future) == 7
    assert stage.events() == []


def test_it_waits_for_what_is_in_flight_and_what_comes_waits_for_it(stage: Stage) -> None:
    """P-G.10.7: requests of records and of the control thread alike; none is lost or overtaken."""
    futures = [stage.sender.send(b"1")]
    assert stage.door.serve(NODE) == 1
    futures.append(stage.sender.send(b"2"))
    assert stage.door.serve(NODE) == 1
    stage.swap()
    futures.append(stage.sender.send(b"3"))
    assert stage.door.serve(NODE) == 0
    stage.control(NODE, 5)
    for number in range(2):
        assert stage.ends[SPARE].is_silent
        _, correlation_id = stage.ends[NODE].take()
        stage.ends[NODE].answer(correlation_id, 1 + number)
        stage.door.poll()
    assert stage.events() == [(EventKind.ON_SWAPPED, SPARE)]
    assert stage.ends[NODE].is_closed, "and nothing else went there"
    stage.door.obey()
    assert stage.ends[SPARE].take() == (API_VERSIONS, 0)
    assert stage.door.serve(NODE) == 1
    api_key, correlation_id = stage.ends[SPARE].take()
    assert (api_key, correlation_id) == (PRODUCE, 1)
    stage.ends[SPARE].reply(0)
    stage.door.poll()
    stage.ends[SPARE].answer(correlation_id, 3)
    stage.door.poll()
    assert [offset(each) for each in futures] == [1, 2, 3]
    (answer,) = stage.door.events()
    assert (answer.kind, answer.slot, answer.token) == (EventKind.ON_RESPONSE, NODE, 5)


@pytest.mark.parametrize("is_in_flight", [True, False])
def test_a_first_connection_that_is_lost_is_an_ordinary_loss(
    stage: Stage, is_in_flight: bool
) -> None:
    """P-G.10.7: before the swap, or before it was asked for; the spare one stays as it is."""
    if is_in_flight:
        stage.sender.send()
        stage.door.serve(NODE)
        stage.swap()
        stage.ends[NODE].take()
        stage.ends[NODE].sock.close()
        stage.door.poll()
    else:
        stage.door.disconnect(NODE)
        stage.swap()
    stage.door.poll()
    assert stage.events() == [(EventKind.ON_DISCONNECTED, NODE)]
    assert len(stage.sender.queue()) == is_in_flight, "to be sent again"
    stage.ask_on_spare()
    stage.sender.engine.close_connection(SPARE)
    stage.door.obey()
    assert stage.ends[SPARE].is_closed
    assert stage.events() == [(EventKind.ON_DISCONNECTED, SPARE)]


@pytest.mark.parametrize("is_in_flight", [True, False])
def test_a_spare_connection_that_is_lost_lets_requests_go_on(
    stage: Stage, is_in_flight: bool
) -> None:
    """P-G.10.7: on the first one, also what was held up."""
    futures = []
    if is_in_flight:
        futures.append(stage.sender.send())
        stage.door.serve(NODE)
        stage.swap()
        futures.append(stage.sender.send())
        assert stage.door.serve(NODE) == 0
    stage.ends[SPARE].sock.close()
    stage.door.poll()
    stage.swap()
    assert stage.events() == [(EventKind.ON_DISCONNECTED, SPARE)]
    futures.append(stage.sender.send())
    for number in range(2 if is_in_flight else 1):
        if number or not is_in_flight:
            assert stage.door.serve(NODE) == 1
        _, correlation_id = stage.ends[NODE].take()
        assert correlation_id == number
        stage.ends[NODE].answer(correlation_id, 4 + number)
        stage.door.poll()
    assert offset(futures[0]) == 4


def test_a_broker_may_take_another_version_afterwards(stage: Stage) -> None:
    """P-G.5.5: it was replaced by another release meanwhile."""
    stage.swap(VERSION - 1)
    stage.sender.send()
    assert stage.door.serve(NODE) == 1
    (size,) = struct.unpack(">i", stage.ends[SPARE].sock.recv(4))
    header = kio_codec.request_header(stage.ends[SPARE].sock.recv(size))
    assert header.version == VERSION - 1


def test_what_is_no_spare_connection_takes_nobodys_place(stage: Stage) -> None:
    stage.sender.engine.swap(NODE, VERSION)
    stage.sender.engine.swap(7, VERSION)
    stage.door.obey()
    assert stage.events() == []
    assert stage.ends[NODE].is_silent


def test_both_connections_count_as_one_nodes(stage: Stage) -> None:
    """P-K.2: a spare one is in no metric by itself, and nothing is counted twice."""
    stage.ask_on_spare()
    before = stage.sender.engine.measure(False)
    assert [node.requests for node in before[3]] == [1]
    stage.swap()
    future = stage.sender.send()
    stage.door.serve(NODE)
    _, correlation_id = stage.ends[SPARE].take()
    stage.ends[SPARE].answer(correlation_id, 1)
    stage.door.poll()
    assert future.done()
    stage.door.disconnect(NODE)
    counters, _, _, nodes, _ = stage.sender.engine.measure(False)
    ((_, requests, request_bytes, responses, sent_bytes, received_bytes, *_),) = nodes
    assert (requests, responses) == (2, 2)
    assert request_bytes == sent_bytes == counters["request_bytes"]
    assert received_bytes > 8
    assert counters["requests_sent"] == 2
    assert counters["connections_closed"] == 2
    assert counters["connections"] == 0


def test_a_connection_that_nobody_uses_is_not_kept_alive_by_renewals(stage: Stage) -> None:
    """P-G.3.1, P-G.10.7: it is idle for as long as the one whose place it took."""
    near, far = socket.socketpair()
    with far:
        stage.door.connect_socket(2, near.detach())
        stage.ask_on_spare()
        stage.swap()
        stage.door.events()
        for slot in (NODE, 2):
            stage.door.poll(0)
            (event,) = stage.door.events()
            assert (event.kind, event.slot) == (EventKind.ON_DISCONNECTED, slot)
            assert event.reason == CloseReason.CLOSE_EXPIRED
