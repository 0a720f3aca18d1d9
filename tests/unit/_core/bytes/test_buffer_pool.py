"""The buffer pool: hard bound, two slab sizes, first come first served (contract P-D.3).

P-L.64-71 (BufferPoolTest), but for what slabs make meaningless:
recycling by size and failed allocations.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from fastprod._core.testing.bytes_doors import PoolForTest

KIB = 1024
GIB = 1024**3
SMALL = 2 * KIB
BIG = 32 * KIB
PATIENCE_SECONDS = 30.0
PATIENCE_MS = PATIENCE_SECONDS * 1000


def until(done: Callable[[], bool]) -> None:
    """Give other threads the processor until `done()`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"not done after {PATIENCE_SECONDS} s"
        time.sleep(0.0005)


def sizes(pool: PoolForTest, handle: int) -> list[int]:
    return [size for _, size in pool.spans(handle)]


def take(pool: PoolForTest, need_bytes: int, prefer_big: bool = False) -> int:
    handle = pool.take(need_bytes, prefer_big)
    assert handle is not None
    return handle


def take_small_slabs(pool: PoolForTest) -> list[int]:
    """Everything that is free, small slab by small slab."""
    taken = []
    while (handle := pool.take(SMALL)) is not None:
        taken.append(handle)
    return taken


@pytest.mark.parametrize(
    ("asked", "whole"),
    [(0, 0), (SMALL - 1, 0), (SMALL, SMALL), (BIG - 1, 15 * SMALL), (BIG, BIG), (BIG + 1, BIG)],
)
def test_the_total_is_whole_slabs(asked: int, whole: int) -> None:
    """P-D.3.1: never more than asked for."""
    pool = PoolForTest(asked)
    assert pool.total_bytes == pool.free_bytes == whole


def test_a_request_gets_the_slab_size_that_suits_it() -> None:
    pool = PoolForTest(4 * BIG)
    assert sizes(pool, take(pool, 1)) == [SMALL]
    assert sizes(pool, take(pool, SMALL)) == [SMALL]
    assert sizes(pool, take(pool, 1, prefer_big=True)) == [BIG]
    assert sizes(pool, take(pool, 2 * SMALL)) == [SMALL] * 2
    assert sizes(pool, take(pool, 2 * SMALL + 1)) == [BIG]


def test_a_large_request_is_met_from_any_mix_of_slabs() -> None:
    """Memory in pieces is memory: 30 KiB of small slabs and one big one make 62 KiB."""
    pool = PoolForTest(2 * BIG)
    first = take(pool, SMALL)
    rest = take(pool, 2 * BIG - SMALL)
    assert sorted(sizes(pool, rest)) == [SMALL] * 15 + [BIG]
    assert pool.free_bytes == 0
    pool.give(first)
    pool.give(rest)
    assert pool.free_bytes == 2 * BIG


def test_sixteen_small_slabs_become_a_block_again_in_any_order() -> None:
    pool = PoolForTest(3 * BIG)
    taken = take_small_slabs(pool)
    assert len(taken) == 48
    random.Random(5).shuffle(taken)
    for handle in taken:
        pool.give(handle)
    assert sizes(pool, take(pool, 3 * BIG)) == [BIG] * 3


def test_small_slabs_behind_the_last_block_never_merge() -> None:
    pool = PoolForTest(BIG + 2 * SMALL)
    for handle in take_small_slabs(pool):
        pool.give(handle)
    assert sorted(sizes(pool, take(pool, BIG + 2 * SMALL))) == [SMALL, SMALL, BIG]


def test_more_than_the_pool_has_is_refused_at_once() -> None:
    """P-L.65, P-D.3.2: however long one would wait."""
    pool = PoolForTest(BIG)
    with pytest.raises(ValueError, match="larger than the limit"):
        pool.take(BIG + 1)
    with pytest.raises(ValueError, match="larger than the limit"):
        pool.take(BIG + 1, timeout_ms=PATIENCE_MS)
    assert sizes(pool, take(pool, BIG)) == [BIG]


def test_nothing_is_handed_out_beyond_the_total() -> None:
    pool = PoolForTest(2 * BIG)
    take(pool, BIG)
    take(pool, 1)
    assert pool.take(BIG) is None
    take(pool, BIG - SMALL)
    assert pool.take(1) is None
    assert pool.free_bytes == 0
    assert pool.exhausted_total == 0


def test_heap_slabs_are_outside_the_bound() -> None:
    """P-D.3.10, P-L.58: split children take no pool memory and give none back."""
    pool = PoolForTest(BIG)
    arena = take(pool, BIG)
    ((base, size),) = pool.spans(arena)
    outside = pool.take_heap(100_000)
    ((address, length),) = pool.spans(outside)
    assert length == pool.heap_bytes == 100_000
    assert address + length <= base or base + size <= address
    pool.give(outside)
    assert (pool.heap_bytes, pool.free_bytes) == (0, 0)
    pool.give(arena)
    assert pool.free_bytes == BIG


@pytest.mark.parametrize("total_bytes", [20 * GIB, 48 * GIB])
def test_a_pool_of_many_gigabytes_is_reserved_but_not_touched(total_bytes: int) -> None:
    """P-L.70: no 32-bit arithmetic anywhere, and no machine has to have the memory now."""
    before = resident_bytes()
    pool = PoolForTest(total_bytes)
    assert pool.free_bytes == total_bytes
    chain = take(pool, 5 * GIB, prefer_big=True)
    assert pool.free_bytes == total_bytes - 5 * GIB
    assert sum(sizes(pool, chain)) == 5 * GIB
    far = take(pool, SMALL)
    ((address, _),) = pool.spans(far)
    assert 5 * GIB <= address - pool.arena_address < 5 * GIB + BIG
    pool.fill(far, 7)
    assert pool.is_filled(far, 7)
    pool.give(chain)
    pool.give(far)
    assert pool.free_bytes == total_bytes
    with pytest.raises(ValueError, match="larger than the limit"):
        pool.take(total_bytes + 1)
    assert resident_bytes() - before < GIB


def resident_bytes() -> int:
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_waiter_goes_on_when_memory_comes_back() -> None:
    """P-L.66."""
    pool = PoolForTest(BIG)
    held = take(pool, BIG)
    with ThreadPoolExecutor(1) as threads:
        waiter = threads.submit(pool.take, BIG, timeout_ms=PATIENCE_MS)
        until(lambda: pool.waiting == 1)
        pool.give(held)
        handle = waiter.result(PATIENCE_SECONDS)
    assert handle is not None
    assert sizes(pool, handle) == [BIG]
    assert pool.waiting == 0
    assert pool.wait_ns_total > 0


def test_a_later_small_request_does_not_overtake_an_older_large_one() -> None:
    """P-D.3.3, with threads: memory is kept for the first in line alone."""
    pool = PoolForTest(BIG)
    held = take_small_slabs(pool)
    with ThreadPoolExecutor(2) as threads:
        large = threads.submit(pool.take, BIG - SMALL, timeout_ms=PATIENCE_MS)
        until(lambda: pool.waiting == 1)
        small = threads.submit(pool.take, 1, timeout_ms=PATIENCE_MS)
        until(lambda: pool.waiting == 2)
        for given, handle in enumerate(held[:14], 1):
            pool.give(handle)
            assert pool.free_bytes == given * SMALL
            assert pool.waiting == 2
        assert pool.take(1) is None, "a newcomer overtook the line"
        pool.give(held[14])
        served = large.result(PATIENCE_SECONDS)
        assert pool.waiting == 1
        assert not small.done()
        pool.give(held[15])
        last = small.result(PATIENCE_SECONDS)
    assert served is not None
    assert last is not None
    pool.give(served)
    pool.give(last)
    assert (pool.waiting, pool.free_bytes) == (0, BIG)


def test_what_waits_for_callbacks_counts_as_taken() -> None:
    """P-D.3: the slabs are back, but not to be had; who waits is served when callbacks have run."""
    pool = PoolForTest(BIG)
    pool.hold(BIG - SMALL)
    assert (pool.free_bytes, pool.callback_bytes) == (BIG, BIG - SMALL)
    assert pool.take(SMALL + 1) is None
    handle = pool.take(SMALL)
    assert handle is not None
    none, waiter = pool.queue(SMALL)
    assert none is None
    assert waiter is not None
    assert pool.look(waiter) is None
    pool.let_go(BIG - SMALL)
    served = pool.look(waiter)
    assert served is not None
    pool.give(handle)
    pool.give(served)
    assert (pool.free_bytes, pool.callback_bytes) == (BIG, 0)


def test_who_runs_the_callbacks_goes_before_those_who_wait_for_them() -> None:
    """P-D.3: it needs slabs only; where there are none it is the first in line."""
    pool = PoolForTest(BIG)
    held = take_small_slabs(pool)
    pool.hold(BIG)
    _, sender = pool.queue(SMALL)
    _, callback = pool.queue(2 * SMALL, is_delivery=True)
    assert sender is not None
    assert callback is not None
    pool.give(held.pop())
    assert pool.look(callback) is None
    pool.give(held.pop())
    served = pool.look(callback)
    assert served is not None
    assert pool.look(sender) is None
    pool.give(served)
    assert pool.look(sender) is None
    handle, _ = pool.queue(SMALL, is_delivery=True)
    assert handle is not None, "slabs were free, and it does not wait for itself"
    pool.let_go(BIG)
    last = pool.look(sender)
    assert last is not None
    for each in (*held, handle, last):
        pool.give(each)
    assert (pool.waiting, pool.free_bytes) == (0, BIG)


def test_who_runs_the_callbacks_is_refused_when_as_much_again_waits_for_it() -> None:
    pool = PoolForTest(BIG)
    pool.hold(2 * BIG - SMALL)
    handle, _ = pool.queue(SMALL, is_delivery=True)
    assert handle is not None
    pool.give(handle)
    exhausted = pool.exhausted_total
    assert pool.queue(SMALL + 1, is_delivery=True) == (None, None)
    assert (pool.waiting, pool.exhausted_total) == (0, exhausted + 1)


def test_threads_are_served_in_the_order_they_came() -> None:
    """P-D.3.3."""
    pool = PoolForTest(SMALL)
    held = take(pool, SMALL)
    order: list[int] = []

    def wait_and_pass_on(number: int) -> None:
        handle = pool.take(SMALL, timeout_ms=PATIENCE_MS)
        assert handle is not None
        order.append(number)
        pool.give(handle)

    with ThreadPoolExecutor(8) as threads:
        waiters: list[Future[None]] = []
        for number in range(8):
            waiters.append(threads.submit(wait_and_pass_on, number))
            until(lambda: pool.waiting == len(waiters))
        pool.give(held)
        for waiter in waiters:
            waiter.result(PATIENCE_SECONDS)
    assert order == list(range(8))


def test_a_time_out_gives_back_what_was_gathered_and_serves_the_next() -> None:
    """P-D.3.4, P-L.68."""
    pool = PoolForTest(BIG)
    held = take_small_slabs(pool)
    chain, large = pool.queue(BIG)
    assert chain is None
    assert large is not None
    chain, small = pool.queue(3 * SMALL)
    assert chain is None
    assert small is not None
    for handle in held[:5]:
        pool.give(handle)
    assert pool.look(small) is None
    assert pool.cancel(large, timed_out=True) is None
    served = pool.look(small)
    assert served is not None
    assert sizes(pool, served) == [SMALL] * 3
    assert pool.free_bytes == 2 * SMALL
    assert (pool.waiting, pool.exhausted_total) == (0, 1)


def test_leaving_the_line_with_nothing_gathered_serves_the_next() -> None:
    """P-D.3.3: the first wanted more than there was; the second does not."""
    pool = PoolForTest(BIG)
    held = take(pool, BIG, prefer_big=True)
    _, first = pool.queue(BIG)
    _, second = pool.queue(BIG)
    assert first is not None
    assert second is not None
    assert pool.cancel(first) is None
    assert pool.look(second) is None
    pool.give(held)
    assert pool.look(second) is not None
    assert pool.exhausted_total == 0, "a signal is not a time-out"


def test_one_in_the_middle_of_the_line_may_leave() -> None:
    """P-D.3.5: the order of the others stays."""
    pool = PoolForTest(2 * SMALL)
    held = take_small_slabs(pool)
    line = [waiter for _, waiter in (pool.queue(SMALL) for _ in range(4)) if waiter is not None]
    assert len(line) == 4
    pool.cancel(line[1])
    pool.give(held[0])
    assert [waiter for waiter in (line[0], line[2], line[3]) if pool.look(waiter)] == [line[0]]
    pool.cancel(line[3])
    _, late = pool.queue(SMALL)
    assert late is not None
    pool.give(held[1])
    assert pool.look(late) is None
    assert pool.look(line[2]) is not None
    pool.cancel(late)
    assert pool.waiting == 0


def test_memory_that_arrives_at_the_last_moment_is_not_lost() -> None:
    """P-D.3.4: the deadline passed, but the chain is there before the waiter looks."""
    pool = PoolForTest(BIG)
    held = take(pool, BIG)
    _, waiter = pool.queue(SMALL)
    assert waiter is not None
    pool.give(held)
    handle = pool.cancel(waiter, timed_out=True)
    assert handle is not None
    pool.give(handle)
    assert (pool.free_bytes, pool.exhausted_total) == (BIG, 0)


def test_the_time_between_two_looks_is_counted_once() -> None:
    """P-D.3.9: who looks after signals in between waits all the same."""
    pool = PoolForTest(BIG)
    held = take(pool, BIG)
    began_ns = time.monotonic_ns()
    _, waiter = pool.queue(SMALL)
    assert waiter is not None
    for _ in range(2):
        time.sleep(0.02)
        assert pool.look(waiter) is None
    assert 40_000_000 <= pool.wait_ns_total <= time.monotonic_ns() - began_ns
    pool.cancel(waiter)
    pool.give(held)


def test_a_time_out_is_not_early_and_is_counted() -> None:
    """P-L.67, P-D.3.9: the wait is counted although it was in vain."""
    pool = PoolForTest(BIG)
    held = take(pool, BIG)
    began_ns = time.monotonic_ns()
    assert pool.take(SMALL, timeout_ms=30) is None
    took_ns = time.monotonic_ns() - began_ns
    assert took_ns >= 30_000_000
    # Less than the time-out where the thread lost its core before it came to the line.
    assert 0 < pool.wait_ns_total <= took_ns
    assert (pool.exhausted_total, pool.waiting, pool.free_bytes) == (1, 0, 0)
    pool.give(held)
    assert pool.free_bytes == BIG


def test_closing_wakes_every_waiter() -> None:
    """P-D.3.7, P-L.71: and what they had gathered is in the pool again."""
    pool = PoolForTest(BIG)
    held = take_small_slabs(pool)
    with ThreadPoolExecutor(3) as threads:
        waiters = []
        for need in (BIG, SMALL, SMALL):
            waiters.append(threads.submit(pool.take, need, timeout_ms=PATIENCE_MS))
            until(lambda: pool.waiting == len(waiters))
        pool.give(held[0])
        pool.close()
        for waiter in waiters:
            with pytest.raises(OSError, match="closed"):
                waiter.result(PATIENCE_SECONDS)
    assert (pool.waiting, pool.free_bytes) == (0, SMALL)
    with pytest.raises(OSError, match="closed"):
        pool.take(1)
    with pytest.raises(OSError, match="closed"):
        pool.take(1, timeout_ms=PATIENCE_MS)
    for handle in held[1:]:
        pool.give(handle)
    assert pool.free_bytes == BIG


def test_ten_threads_share_a_small_pool() -> None:
    """P-L.69: nobody ever holds another's bytes, and all memory is there at the end."""
    pool = PoolForTest(6 * BIG + 3 * SMALL)
    start = threading.Barrier(10)

    def work(number: int) -> int:
        chance = random.Random(number)
        start.wait(PATIENCE_SECONDS)
        done = 0
        for _ in range(1500):
            need = chance.choice((1, SMALL, 3 * SMALL, BIG, 2 * BIG + 1, 5 * BIG))
            handle = pool.take(need, chance.random() < 0.5, timeout_ms=PATIENCE_MS)
            assert handle is not None
            pool.fill(handle, number)
            assert sum(sizes(pool, handle)) >= need
            assert pool.is_filled(handle, number)
            pool.give(handle)
            done += 1
        return done

    with ThreadPoolExecutor(10) as threads:
        assert sum(threads.map(work, range(10))) == 15_000
    assert (pool.waiting, pool.exhausted_total) == (0, 0)
    assert pool.free_bytes == pool.total_bytes
    assert sizes(pool, take(pool, 6 * BIG, prefer_big=True)) == [BIG] * 6


@pytest.mark.parametrize("need_bytes", [SMALL, BIG, 3 * BIG])
def test_giving_back_twice_stops_the_process(need_bytes: int) -> None:
    """P-D.8.5: better no producer than one that writes a record into another's batch."""
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "from fastprod._core.testing.bytes_doors import PoolForTest\n"
        f"pool = PoolForTest({4 * BIG})\n"
        f"handle = pool.take({need_bytes})\n"
        "pool.give(handle, keep=True)\n"
        "print('once', flush=True)\n"
        "pool.give(handle)\n"
        "print('twice')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.returncode) == ("once\n", -signal.SIGABRT)
