"""ProcessTree: CPU time and memory of a process and all its descendants: a JVM and its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/<pid>/stat from the one behind the program's name.
_PARENT = 1
_CPU = slice(11, 15)  # its own, user and system, and that of children that it has waited for


class ProcessTree:
    """A process with its children, their children and so on, as they are when it is asked.

    Args:
        root_pid: of the first.

    A descendant that ended and whose parent did not wait for it is lost to the count.
    """

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid

    def pids(self) -> list[int]:
        """The root's first, then its descendants'."""
        children: dict[int, list[int]] = {}
        for pid, fields in _all_stats():
            children.setdefault(int(fields[_PARENT]), []).append(pid)
        found = [self._root_pid]
        for pid in found:
            found.extend(children.get(pid, ()))
        return found

    def cpu_s(self) -> float:
        """CPU time of all of them so far, children that have ended included."""
        return sum(self.cpu_s_by_program().values())

    def cpu_s_by_program(self) -> dict[str, float]:
        """The same by the program's name, such as java and python3.11."""
        stats = dict(_all_stats())
        found: dict[str, float] = {}
        for pid in self.pids():
            if pid in stats:
                used_s = sum(map(int, stats[pid][_CPU])) * _TICK_S
                name = _program(pid)
                found[name] = found.get(name, 0.0) + used_s
        return found

    def peak_bytes(self) -> int:
        """The sum of each one's largest resident memory; what they share now counts once."""
        return sum(map(_peak_bytes, self.pids()))


def _all_stats() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue  # it has ended since
            # The program's name may have blanks: fields are counted from the parenthesis behind it.
            yield int(folder.name), text.rpartition(")")[2].split()


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return "ended"


def _peak_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        now = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has ended since
    return _field(status, "VmHWM") - (_field(now, "Rss") - _field(now, "Pss"))


def _field(text: str, name: str) -> int:
    """Bytes of a line such as "VmHWM:  1024 kB"; 0: there is none."""
    return sum(
        int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{name}:")
    )
