"""Meter: wall time, CPU time and peak memory of this process while a client works."""

from __future__ import annotations

import dataclasses
import json
import resource
import time
from pathlib import Path
from typing import Self


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one run of one client brought.

    Attributes:
        acknowledged_count: records that the brokers acknowledged, by the client's own account.
        warm_count: of these, sent before the clock started.
        value_bytes: bytes of all timed values.
        wall_s: from the first send to the last acknowledgement.
        cpu_s: CPU time of the client's process, all threads, user and system, in that time; NaN
            where it cannot be told.
        baseline_bytes: resident memory when imports and values were there, before the client.
        peak_bytes: largest resident memory.
        latencies_us: each record's, where records went one at a time or at a pace; of many of them
            a part with the same quantiles.
        ended_s: when the last acknowledgement came, by the machine's monotonic clock.
        wake_up_count: how often a thread of the client's process had slept, in the time.
        thread_count: its threads, at the end of the time.
    """

    acknowledged_count: int
    warm_count: int
    value_bytes: int
    wall_s: float
    cpu_s: float
    baseline_bytes: int
    peak_bytes: int
    latencies_us: list[float] = dataclasses.field(default_factory=list)
    ended_s: float = 0.0
    wake_up_count: int = 0
    thread_count: int = 0

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    @property
    def record_count(self) -> int:
        return self.acknowledged_count - self.warm_count


class Meter:
    """Make it when all is imported; `start`, `stop` around the work; then `outcome`."""

    def __init__(self) -> None:
        self._baseline_bytes = resident_bytes("VmRSS")
        self._wall_s = 0.0
        self._cpu_s = 0.0
        self._ended_s = 0.0
        self._wake_ups = self._threads = 0

    def start(self) -> None:
        self._wake_ups = _wake_up_count()
        self._cpu_s = cpu_s()
        self._wall_s = time.perf_counter()

    def stop(self) -> None:
        """Call it when the last record is acknowledged."""
        self._ended_s = time.monotonic()
        self._wall_s = time.perf_counter() - self._wall_s
        self._cpu_s = cpu_s() - self._cpu_s
        self._wake_ups = _wake_up_count() - self._wake_ups
        self._threads = len(list(Path("/proc/self/task").iterdir()))

    @property
    def wall_us(self) -> float:
        """Between `start` and `stop`."""
        return self._wall_s * 1e6

    def outcome(
        self,
        acknowledged_count: int,
        warm_count: int,
        value_bytes: int,
        latencies_us: list[float] | None = None,
        *,
        has_cpu: bool = True,
    ) -> Outcome:
        return Outcome(
            acknowledged_count,
            warm_count,
            value_bytes,
            self._wall_s,
            self._cpu_s if has_cpu else float("nan"),
            self._baseline_bytes,
            resident_bytes("VmHWM"),
            latencies_us or [],
            self._ended_s,
            self._wake_ups,
            self._threads,
        )


def cpu_s() -> float:
    """CPU time of this process, all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _wake_up_count() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def resident_bytes(field: str) -> int:
    """VmRSS or VmHWM of this process.

    Not ru_maxrss: that starts with what the parent had at the fork.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {field}")
