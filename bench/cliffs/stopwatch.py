"""Stopwatch: CPU and wall time of a `with`, of this process or of another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Self

from bench.cliffs.side import Figures

_CPUCLOCK_SCHED = 2
_CLOCK_BITS = 3
_MAIN = threading.main_thread()


class Stopwatch:
    """`figures` after the `with`.

    Args:
        pid: the process whose CPU time is taken, with all its threads; None: this one.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._clock = time.CLOCK_PROCESS_CPUTIME_ID if pid is None else _clock_of(pid)
        self._cpu_s = 0.0
        self._wall_s = 0.0

    @property
    def cpu_s(self) -> float:
        return self._cpu_s

    @property
    def wall_s(self) -> float:
        return self._wall_s

    def __enter__(self) -> Self:
        self._cpu_s = -time.clock_gettime(self._clock)
        self._wall_s = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu_s += time.clock_gettime(self._clock)
        self._wall_s += time.perf_counter()

    def figures(self) -> Figures:
        return {"cpu_s": self._cpu_s, "wall_s": self._wall_s}


def process_cpu_s(pid: int) -> float:
    """CPU time of another process so far, all its threads."""
    return time.clock_gettime(_clock_of(pid))


def _clock_of(pid: int) -> int:
    """Linux's clock id of another process, as clock_getcpuclockid(3) makes it."""
    return ~pid << _CLOCK_BITS | _CPUCLOCK_SCHED


def helpers_cpu_s() -> float:
    """CPU time of this process's Python threads, all but the main one."""
    return _threads_cpu_s(each for each in threading.enumerate() if each is not _MAIN)


def native_cpu_s() -> float:
    """CPU time of this process outside of its Python threads: that of the I/O thread."""
    return time.process_time() - _threads_cpu_s(threading.enumerate())


def _threads_cpu_s(threads: Iterable[threading.Thread]) -> float:
    idents = [each.ident for each in threads]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(each)) for each in idents if each)
