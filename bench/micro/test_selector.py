"""The Selector against a plain process at the other end, beside bare sockets doing the same.

Both loops run without the GIL, as on the engine's I/O thread. Every answer and every byte count is
checked. Run it with `pytest bench/micro/test_selector.py`; each test prints its figures.
"""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastprod._core.testing.selector_harness import SelectorForTest

ECHO = struct.pack(">i", 226) + bytes(226)
ECHO_COUNT = 5_000
BULK = struct.pack(">i", 512 * 1024) + bytes(512 * 1024)
BULK_COUNT = 2_000
PATIENCE_MS = 60_000
ROUNDS = 3

Result = TypeVar("Result")

BACKENDS = pytest.mark.parametrize("force_poll", [False, True], ids=["epoll", "poll"])


def echo(peer: socket.socket) -> None:
    while part := peer.recv(65_536):
        peer.sendall(part)


def swallow(peer: socket.socket) -> None:
    """Read BULK_COUNT frames, then answer with how many bytes that were; again until the end."""
    buffer = bytearray(1 << 20)
    count = 0
    while size := peer.recv_into(buffer):
        count += size
        if count >= BULK_COUNT * len(BULK):
            peer.sendall(struct.pack(">iq", 8, count))
            count = 0


def pour(peer: socket.socket) -> None:
    """Send BULK_COUNT frames for each byte that comes in."""
    while peer.recv(1):
        for _ in range(BULK_COUNT):
            peer.sendall(BULK)


@contextmanager
def other_process(serve: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """A TCP connection whose other end is served by a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    for end in (ours, theirs):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run() -> None:
        ours.close()
        serve(theirs)

    process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(10)
        assert process.exitcode == 0


def repeat(benchmark: BenchmarkFixture, run: Callable[[], Result]) -> Result:
    return benchmark.pedantic(run, rounds=ROUNDS)  # type: ignore[no-untyped-call,no-any-return]


def report(benchmark: BenchmarkFixture, figures: dict[str, float]) -> None:
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {**figures, "peak_rss_mib": peak_mib}
    benchmark.extra_info.update(figures)
    print(f"\n{benchmark.name}: " + "  ".join(f"{k} {v:.2f}" for k, v in figures.items()))


def latencies(marks_ns: list[int]) -> dict[str, float]:
    trips_us = sorted((b - a) / 1000 for a, b in itertools.pairwise(marks_ns))
    return {
        "median_us": statistics.median(trips_us),
        "p99_us": trips_us[len(trips_us) * 99 // 100],
        "count": len(trips_us),
    }


def throughput(benchmark: BenchmarkFixture, run: Callable[[], None]) -> None:
    cpu_seconds: list[float] = []
    wall_seconds: list[float] = []

    def timed() -> None:
        cpu, wall = time.thread_time(), time.perf_counter()
        run()
        cpu_seconds.append(time.thread_time() - cpu)
        wall_seconds.append(time.perf_counter() - wall)

    repeat(benchmark, timed)
    moved_gb = BULK_COUNT * len(BULK) / 1e9
    report(
        benchmark,
        {
            "gb_per_second": moved_gb / statistics.median(wall_seconds),
            "cpu_seconds_per_gb": statistics.median(cpu_seconds) / moved_gb,
        },
    )


@BACKENDS
def test_a_round_trip_of_230_bytes(benchmark: BenchmarkFixture, force_poll: bool) -> None:
    with other_process(echo) as ours:
        selector = SelectorForTest(force_poll)
        channel = selector.register(ours.detach())

        def run() -> list[int]:
            return selector.exchange(channel, ECHO, ECHO_COUNT, True, PATIENCE_MS)

        run()
        report(benchmark, latencies(repeat(benchmark, run)))
        selector.close()


def test_a_round_trip_of_230_bytes_on_a_bare_socket(benchmark: BenchmarkFixture) -> None:
    with other_process(echo) as ours:

        def run() -> list[int]:
            marks_ns = [time.monotonic_ns()]
            for _ in range(ECHO_COUNT):
                ours.sendall(ECHO)
                assert ours.recv(4096) == ECHO
                marks_ns.append(time.monotonic_ns())
            return marks_ns

        run()
        report(benchmark, latencies(repeat(benchmark, run)))


@BACKENDS
def test_sending_512_kib_frames(benchmark: BenchmarkFixture, force_poll: bool) -> None:
    with other_process(swallow) as ours:
        selector = SelectorForTest(force_poll)
        channel = selector.register(ours.detach())

        def run() -> None:
            before = selector.channel(channel).sent_bytes
            selector.exchange(channel, BULK, BULK_COUNT, False, PATIENCE_MS)
            # The reader answers with one frame when every byte has arrived.
            assert selector.collect(channel, 1, PATIENCE_MS) == 8
            assert selector.channel(channel).sent_bytes - before == BULK_COUNT * len(BULK)

        throughput(benchmark, run)
        selector.close()


def test_sending_512_kib_frames_on_a_bare_socket(benchmark: BenchmarkFixture) -> None:
    with other_process(swallow) as ours:

        def run() -> None:
            for _ in range(BULK_COUNT):
                ours.sendall(BULK)
            assert struct.unpack(">iq", ours.recv(12)) == (8, BULK_COUNT * len(BULK))

        throughput(benchmark, run)


@BACKENDS
def test_receiving_512_kib_frames(benchmark: BenchmarkFixture, force_poll: bool) -> None:
    with other_process(pour) as ours:
        selector = SelectorForTest(force_poll)
        channel = selector.register(ours.detach())

        def run() -> None:
            selector.send(channel, [b"!"])
            expected = BULK_COUNT * (len(BULK) - 4)
            assert selector.collect(channel, BULK_COUNT, PATIENCE_MS) == expected

        throughput(benchmark, run)
        selector.close()


def test_receiving_512_kib_frames_on_a_bare_socket(benchmark: BenchmarkFixture) -> None:
    with other_process(pour) as ours:
        buffer = bytearray(len(BULK))

        def run() -> None:
            ours.sendall(b"!")
            left = BULK_COUNT * len(BULK)
            while left > 0:
                left -= ours.recv_into(buffer)
            assert left == 0

        throughput(benchmark, run)
