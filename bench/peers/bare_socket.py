"""A prepared Produce frame on a bare blocking socket: what the server and the loopback allow.

With TLS it is a socket of Python's own module ssl.

Its bytes come from the slow record batch oracle and from the few lines here, not from fastprod.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time

import lz4.frame  # type: ignore[import-untyped]

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.waiting import WARM_UP, wait_for_each
from bench.workload import COLD, DRESS_HEADERS, DRESS_KEY, TRICKLE, TRICKLE_PAUSE_S, Workload
from support.oracle.record_batch import encode_batch

_IN_FLIGHT = 5
_PRODUCE, _VERSION = 0, 7
_ACKS = {"all": -1, "1": 1}
_LZ4 = 3
_METADATA, _METADATA_VERSION = 3, 1
_API_VERSIONS, _INIT_PRODUCER_ID = 18, 22
_NO_PRODUCER = (-1, -1)
_NO_TRANSACTIONS = struct.pack(">hi", -1, 60_000)
_SERVER_TIMEOUT_MS = 30_000
_FRAME_OVERHEAD = 12


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    host, _, port = load.bootstrap_servers.partition(":")
    if load.way == COLD:
        return _first(load, (host, int(port)), values[0], meter)
    with _connected((host, int(port))) as connection:
        if load.ca_file:
            context = ssl.create_default_context(cafile=load.ca_file)
            connection = context.wrap_socket(connection, server_hostname=host)
        if load.way == "latency":
            return _one_at_a_time(load, connection, values, meter)
        if load.way == TRICKLE:
            return _trickle(load, connection, values[0], meter)
        return _in_bulk(load, connection, values, meter)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def produce_frame(
    load: Workload,
    values: list[bytes],
    producer: tuple[int, int] = _NO_PRODUCER,
    base_sequence: int = -1,
) -> bytes:
    """A whole Produce v7 request with one batch for partition 0, by default no idempotent one."""
    now_ms = int(time.time() * 1000)
    key, headers = (DRESS_KEY, DRESS_HEADERS) if load.dressed else (None, ())
    records = [(now_ms, key, value, headers) for value in values]
    is_lz4 = load.codec == "lz4"
    batch = encode_batch(
        records,
        codec=_LZ4 if is_lz4 else 0,
        compress=lz4.frame.compress if is_lz4 else None,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=base_sequence,
    )
    body = (
        struct.pack(">hhi", _PRODUCE, _VERSION, 1)
        + _text("bare-socket")
        + struct.pack(">hhi", -1, _ACKS[load.acks], _SERVER_TIMEOUT_MS)
        + struct.pack(">i", 1)
        + _text(load.topic)
        + struct.pack(">iii", 1, 0, len(batch))
        + batch
    )
    return struct.pack(">i", len(body)) + body


def _frame(api_key: int, version: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">hhi", api_key, version, 1) + _text("bare-socket") + body
    return struct.pack(">i", len(frame)) + frame


def _read_answer(connection: socket.socket, topic: str) -> None:
    """One response; anything but success ends the run."""
    head = _read(connection, 4)
    body = _read(connection, struct.unpack(">i", head)[0])
    error_at = 4 + 4 + 2 + len(topic) + 4 + 4
    (error,) = struct.unpack_from(">h", body, error_at)
    if error:
        raise SystemExit(f"the server answered with error {error}")


def _read(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size)
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise SystemExit("the server closed the connection")
        data += more
    return data


def _read_any_answer(connection: socket.socket) -> None:
    _read(connection, struct.unpack(">i", _read(connection, 4))[0])


def _connected(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _first(load: Workload, address: tuple[str, int], value: bytes, meter: Meter) -> Outcome:
    """What a producer says until its first record is acknowledged, in as many round trips.

    The one broker is the leader, so that the answer about it need not be understood.
    """
    ask_versions = _frame(_API_VERSIONS, 0)
    ask_topic = _frame(_METADATA, _METADATA_VERSION, struct.pack(">i", 1) + _text(load.topic))
    ask_id = _frame(_INIT_PRODUCER_ID, 0, _NO_TRANSACTIONS)
    record = produce_frame(load, [value])
    meter.start()
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(_connected(address))
        door.sendall(ask_versions)
        _read_any_answer(door)
        door.sendall(ask_topic + ask_id)
        _read_any_answer(door)
        _read_any_answer(door)
        leader = stack.enter_context(_connected(address))
        leader.sendall(ask_versions)
        _read_any_answer(leader)
        leader.sendall(record)
        _read_answer(leader, load.topic)
        meter.stop()
    return meter.outcome(1, 0, len(value), [meter.wall_us])


def _ask_producer(connection: socket.socket) -> tuple[int, int]:
    """The id and the epoch of an idempotent producer."""
    connection.sendall(_frame(_INIT_PRODUCER_ID, 0, _NO_TRANSACTIONS))
    answer = _read(connection, struct.unpack(">i", _read(connection, 4))[0])
    error, producer_id, epoch = struct.unpack_from(">hqh", answer, 8)
    if error:
        raise SystemExit(f"the server gave no producer id: error {error}")
    return producer_id, epoch


def _one_at_a_time(
    load: Workload, connection: socket.socket, values: list[bytes], meter: Meter
) -> Outcome:
    # Each record has its frame: who sends the same one again has its bytes in the nearest cache.
    # They are idempotent as ours are by default, which costs the broker something.
    sent, topic, answers = values[:WARM_UP] + values * load.round_count, load.topic, 0
    if load.idempotence is False:
        frames = iter([produce_frame(load, [value]) for value in sent])
    else:
        producer = _ask_producer(connection)
        frames = iter(
            [produce_frame(load, [value], producer, number) for number, value in enumerate(sent)]
        )

    def one(_value: bytes) -> None:
        nonlocal answers
        connection.sendall(next(frames))
        _read_answer(connection, topic)
        answers += 1

    return wait_for_each(load, values, meter, one, lambda: answers)


def _trickle(load: Workload, connection: socket.socket, value: bytes, meter: Meter) -> Outcome:
    frame, clock, took_us = produce_frame(load, [value]), time.perf_counter_ns, []
    meter.start()
    for _ in range(load.record_count):
        time.sleep(TRICKLE_PAUSE_S)
        started_ns = clock()
        connection.sendall(frame)
        _read_answer(connection, load.topic)
        took_us.append((clock() - started_ns) / 1000)
    meter.stop()
    return meter.outcome(len(took_us), 0, load.record_count * len(value), took_us)


def _in_bulk(
    load: Workload, connection: socket.socket, values: list[bytes], meter: Meter
) -> Outcome:
    """Frames of up to batch_bytes, five in flight, the last one shorter."""
    value_bytes = len(values[0])
    per_frame = (load.batch_bytes or 0) // (value_bytes + _FRAME_OVERHEAD)
    frame_count, rest = divmod(load.record_count, per_frame)
    repeated = values * (per_frame // len(values) + 1)
    frames = [produce_frame(load, repeated[:per_frame])] * frame_count
    if rest:
        frames.append(produce_frame(load, repeated[:rest]))
    meter.start()
    for number, frame in enumerate(frames):
        if number >= _IN_FLIGHT:
            _read_answer(connection, load.topic)
        connection.sendall(frame)
    for _ in frames[:_IN_FLIGHT]:
        _read_answer(connection, load.topic)
    meter.stop()
    return meter.outcome(load.record_count, 0, load.record_count * value_bytes)


if __name__ == "__main__":
    serve(work)
