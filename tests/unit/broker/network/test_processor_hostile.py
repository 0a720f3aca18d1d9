"""What anybody may send to a port: it costs the sender its connection, and nobody else anything."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastprod._core.io.server_selector import ServerSelector
from support.broker.processor_stage import (
    MAX_BYTES,
    SETTINGS,
    ProcessorStage,
    exchange,
    framed,
    is_closed,
    payload,
    read_frame,
    request,
    reset,
)
from support.processes.leak_guard import nothing_is_left as nothing_is_left


@pytest.fixture(params=["inline-epoll", "inline-poll", "pool-epoll"])
def stage(request: pytest.FixtureRequest) -> Iterator[ProcessorStage]:
    mode, backend = request.param.split("-")
    threads = 1 if mode == "pool" else 0
    selector = ServerSelector(MAX_BYTES, backend == "poll")
    with ProcessorStage(threads=threads, selector=selector) as opened:
        yield opened
        # Whatever happened: others are served, and in the end everything is uncounted.
        exchange(opened.connect())
        for client in opened.clients:
            client.close()
        opened.all_gone()
        assert opened.handler.failures == []


def address_space_bytes() -> int:
    """0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 0


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack(">i", 2**31 - 1), id="two gigabytes"),
        pytest.param(struct.pack(">i", MAX_BYTES + 1), id="one byte too many"),
        pytest.param(struct.pack(">i", -1), id="less than nothing"),
        pytest.param(struct.pack(">i", -(2**31)), id="the least number"),
        pytest.param(struct.pack(">i", 0), id="an empty frame"),
        pytest.param(framed(b"short"), id="half a header"),
        pytest.param(framed(b"\xff" * 64), id="no api"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="a browser"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="a TLS hello"),
    ],
)
def test_what_is_no_request_ends_its_connection_alone(stage: ProcessorStage, sent: bytes) -> None:
    """B-A10.8 tooBigRequestIsRejected, B-A4.1, B-A3.7: without a byte of an answer."""
    other, client = stage.connect(), stage.connect()
    exchange(other)
    client.sendall(sent)
    assert is_closed(client)
    exchange(other)


def test_requests_before_the_bad_one_are_answered(stage: ProcessorStage) -> None:
    """B-A4.1: it is noticed when it is its turn."""
    client = stage.connect()
    client.sendall(request(b"good") + struct.pack(">i", -5))
    assert read_frame(client) == payload(b"good")
    assert is_closed(client)


def test_the_largest_size_allowed_is_allowed(stage: ProcessorStage) -> None:
    """B-A4.1: socket.request.max.bytes itself."""
    client = stage.connect()
    body = bytes(MAX_BYTES - 8)
    client.sendall(request(body))
    assert read_frame(client) == payload(body)


def test_a_byte_at_a_time_both_ways(stage: ProcessorStage) -> None:
    """B-A4.2: at any boundary."""
    client, other = stage.connect(), stage.connect()
    sent = request(b"slow as can be") + request(b"and again")
    for at in range(len(sent)):
        client.sendall(sent[at : at + 1])
        if at % 8 == 0:
            exchange(other)
    answer = b"".join(client.recv(1) for _ in range(len(sent)))
    assert answer == sent


def test_a_reader_of_single_bytes_gets_a_large_answer_whole(stage: ProcessorStage) -> None:
    """B-A4.2: the socket takes it in many parts."""
    client, other = stage.connect(receive_buffer_bytes=2048), stage.connect()
    body = bytes(range(256)) * 1024
    client.sendall(request(body))
    answer = bytearray()
    while len(answer) < len(body) + 12:
        answer += client.recv(1 if len(answer) % 3 else 1500)
        if len(answer) % 1000 == 0:
            exchange(other)
    assert bytes(answer) == request(body)


def test_half_a_request_and_then_silence_keeps_nobody_waiting(stage: ProcessorStage) -> None:
    silent = [stage.connect() for _ in range(20)]
    for index, client in enumerate(silent):
        client.sendall(request(b"x" * 100)[: 1 + index * 5])
    exchange(stage.connect())
    for client in silent[:10]:
        reset(client)
    for client in silent[10:]:
        client.shutdown(socket.SHUT_WR)
        assert is_closed(client)


def test_half_a_request_and_then_silence_expires() -> None:
    """B-A4.4."""
    settings = dataclasses.replace(SETTINGS, connections_max_idle_ms=200)
    with ProcessorStage(settings=settings) as stage:
        client = stage.connect()
        client.sendall(request(b"half")[:7])
        assert is_closed(client)
        stage.all_gone()
        assert stage.processor.expired_count == 1


def test_announced_gigabytes_take_no_memory() -> None:
    """B-A4.1: memory follows what arrives, not what is announced."""
    with ProcessorStage(selector=ServerSelector(2**31 - 1)) as stage:
        clients = [stage.connect() for _ in range(200)]
        before = address_space_bytes()
        for client in clients:
            client.sendall(struct.pack(">i", 2**31 - 1) + bytes(100))
        exchange(stage.connect())
        stage.turn()
        assert stage.processor.connection_count == 201
        assert address_space_bytes() - before < 1 << 30


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_end_nothing_but_their_connection(stage: ProcessorStage, seed: int) -> None:
    noise = random.Random(seed)
    other = stage.connect()
    for _ in range(8):
        client = stage.connect()
        with contextlib.suppress(ConnectionError):
            if noise.random() < 0.5:
                client.sendall(noise.randbytes(noise.randrange(1, 3000)))
            else:
                client.sendall(framed(noise.randbytes(noise.randrange(0, 300))))
        (reset if noise.random() < 0.5 else socket.socket.close)(client)
    exchange(other)


def test_connections_that_come_and_go_at_once_are_all_uncounted(stage: ProcessorStage) -> None:
    for index in range(60):
        client, server = stage.pair()
        (reset if index % 2 else socket.socket.close)(client)
        stage.quotas.inc("127.0.0.1")
        assert stage.processor.accept(server, True, ("127.0.0.1", index))
    stage.until(lambda: stage.quotas.total == 0)
