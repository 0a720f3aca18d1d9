"""MachineLoad: how much of the machine others used while a benchmark ran."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

FOREIGN_LIMIT = 0.10
"""Share of the machine above which others disturb a run."""

_LOOK_S = 0.1
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/stat's first line. Interrupts are left out: what the network costs is accounted
# there, and nobody's; time that the hypervisor gave to others is foreign.
_BUSY = (0, 1, 2, 7)
_ALL = range(8)


class MachineLoad:
    """Made when a run starts; `foreign_share` when it has ended.

    Args:
        pids: processes of the benchmark other than this one and its children that end before
            `foreign_share` is called: servers.
        own_cpu_s: CPU time of this process and its children; None: of those that have ended.
    """

    def __init__(self, pids: Iterable[int], own_cpu_s: Callable[[], float] | None = None) -> None:
        self._pids = list(pids)
        self._own_cpu_s = own_cpu_s or _ended_cpu_s
        self._before = self._sample()

    def foreign_share(self) -> float:
        """Share of the machine (all cores = 1) that was busy with others' work."""
        busy_s, total_s, own_s = (
            after - before for after, before in zip(self._sample(), self._before, strict=True)
        )
        return max(0.0, busy_s - own_s) / total_s if total_s else 0.0

    def _sample(self) -> tuple[float, float, float]:
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
        ticks = [int(text) for text in line.split()[1:]]
        return (
            sum(ticks[i] for i in _BUSY) * _TICK_S,
            sum(ticks[i] for i in _ALL) * _TICK_S,
            self._own_cpu_s() + sum(map(process_cpu_s, self._pids)),
        )


def wait_until_quiet(
    pids: Iterable[int], timeout_s: float, own_cpu_s: Callable[[], float] | None = None
) -> None:
    """Wait until others use at most FOREIGN_LIMIT of the machine, at most `timeout_s`.

    Args:
        pids: as `MachineLoad`; so `own_cpu_s`.
        timeout_s: bound of the wait.
    """
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        load = MachineLoad(pids, own_cpu_s)
        time.sleep(_LOOK_S)
        if load.foreign_share() <= FOREIGN_LIMIT:
            return


def _ended_cpu_s() -> float:
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system


def process_cpu_s(pid: int) -> float:
    """CPU time of another process, all its threads."""
    # The program's name may have blanks: fields are counted from the parenthesis behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S
