"""WakePipe: readable after `wake`, until `drain`."""

from __future__ import annotations

import os
import select

import pytest

from fastprod.broker.threads.wake_pipe import WakePipe
from support.processes.leak_guard import nothing_is_left as nothing_is_left


def is_readable(pipe: WakePipe) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_it_is_readable_from_the_wake_to_the_drain() -> None:
    pipe = WakePipe()
    assert not is_readable(pipe)
    pipe.wake()
    pipe.wake()
    assert is_readable(pipe)
    pipe.drain()
    assert not is_readable(pipe)
    pipe.drain()
    pipe.close()


def test_a_full_pipe_does_not_block_the_waker() -> None:
    pipe = WakePipe()
    for _ in range(100_000):
        pipe.wake()
    pipe.drain()
    assert not is_readable(pipe)
    pipe.close()


def test_a_wake_after_the_end_reaches_nobody_else() -> None:
    pipe = WakePipe()
    pipe.close()
    pipe.close()
    other_read, other_write = os.pipe()
    try:
        pipe.wake()
        assert not select.select([other_read], [], [], 0)[0]
    finally:
        os.close(other_read)
        os.close(other_write)


def test_the_child_of_a_fork_lets_go_whoever_holds_the_lock() -> None:
    pipe = WakePipe()
    read_end = pipe.fileno()
    with pipe._lock:
        pipe.abandon()
    pipe.wake()
    pipe.close()
    with pytest.raises(OSError):
        os.fstat(read_end)
