"""ProcessTree: the processes below one, by /proc: who they are, and what they have used."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kept_process import KeptProcess

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_POLL_S = 0.05


class Process(NamedTuple):
    """One process; its number alone may become another's."""

    pid: int
    parent_pid: int
    started_ticks: int
    command: str

    @property
    def is_running(self) -> bool:
        """Whether it is there still, and no zombie."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] != "Z" and int(fields[19]) == self.started_ticks

    @property
    def rss_bytes(self) -> int:
        """Resident memory; 0: it has ended."""
        fields = _stat(self.pid)
        return 0 if fields is None else int(fields[21]) * _PAGE_BYTES

    @property
    def peak_bytes(self) -> int:
        """Largest resident memory so far; of what it shares now only its part. 0: it has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
            now = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        except OSError:
            return 0
        return _field(status, "VmHWM") - (_field(now, "Rss") - _field(now, "Pss"))

    @property
    def cpu_s(self) -> float:
        """CPU time so far, with that of children it has waited for; 0: it has ended."""
        fields = _stat(self.pid)
        return 0.0 if fields is None else sum(map(int, fields[11:15])) * _TICK_S

    @property
    def program(self) -> str:
        """Name of the executable, such as java or python3.11."""
        try:
            return Path(f"/proc/{self.pid}/exe").readlink().name
        except OSError:
            return "ended"

    def kill(self) -> None:
        """SIGKILL, if it is the same process still."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)


def below(pid: int) -> list[Process]:
    """All descendants of a process, parents first."""
    children: dict[int, list[Process]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            found = _process(int(path.name))
            if found is not None:
                children.setdefault(found.parent_pid, []).append(found)
    tree = list(children.get(pid, ()))
    for each in tree:
        tree += children.get(each.pid, ())
    return tree


def itself(pid: int) -> list[Process]:
    """A process; none if it has ended."""
    found = _process(pid)
    return [] if found is None else [found]


def at_and_below(pid: int) -> list[Process]:
    """A process and all its descendants, parents first.

    What a descendant used that has ended is its parent's `cpu_s`, if the parent waited for it.
    """
    return itself(pid) + below(pid)


def cpu_s_by_program(pid: int) -> dict[str, float]:
    """CPU time so far of a process and all its descendants, by `Process.program`."""
    found: dict[str, float] = {}
    for each in at_and_below(pid):
        found[each.program] = found.get(each.program, 0.0) + each.cpu_s
    return found


def spark_workers(pid: int) -> list[Process]:
    """Python workers of Spark's tasks below a process: children of their daemon."""
    tree = below(pid)
    daemons = {each.pid for each in tree if "pyspark.daemon pyspark.worker" in each.command}
    return [each for each in tree if each.pid in daemons and each.parent_pid in daemons]


def java_processes(pid: int, main_class: str) -> list[Process]:
    """JVMs below a process whose main class is named so."""
    return [each for each in below(pid) if f".{main_class}" in each.command and _is_java(each)]


def wait_until_gone(processes: list[Process], timeout_s: float) -> list[Process]:
    """Wait until all have ended; return those that have not."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        left = [each for each in processes if each.is_running]
        if not left or time.monotonic() > deadline_s:
            return left
        time.sleep(_POLL_S)


def kill_all(process: KeptProcess, timeout_s: float) -> None:
    """SIGKILL a process and all below it, and wait for their end; harmless if it has ended."""
    if process.is_running:
        tree = below(process.pid)
        process.kill(timeout_s)
        for each in tree:
            each.kill()
        wait_until_gone(tree, timeout_s)


class MemoryWatch:
    """While entered, looks at the resident memory of the processes below some, by kind.

    Args:
        pids: whose descendants; each is looked at itself, too.

    Threads: one of its own looks twice a second and at the end; read `peak_bytes` then.
    """

    def __init__(self, *pids: int) -> None:
        self.peak_bytes: dict[str, int] = {}
        self._pids = pids
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory watch")

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        is_over = False
        while not is_over:  # and once more at the end: it may all be over before the first look
            is_over = self._is_over.wait(0.5)
            for pid in self._pids:
                for each in at_and_below(pid):
                    kind = _kind(each)
                    self.peak_bytes[kind] = max(self.peak_bytes.get(kind, 0), each.rss_bytes)


def _kind(process: Process) -> str:
    if _is_java(process):
        return "java"
    if "pyspark.daemon" in process.command:
        return "worker"
    return "broker" if "fastprod broker" in process.command else "python"


def _is_java(process: Process) -> bool:
    return process.command.partition(" ")[0].endswith("java")


def _process(pid: int) -> Process | None:
    fields = _stat(pid)
    if fields is None:
        return None
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    text = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(pid, int(fields[1]), int(fields[19]), text)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the third on: state, parent, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _field(text: str, name: str) -> int:
    """Bytes of a line such as "VmHWM:  1024 kB"; 0: there is none."""
    return sum(
        int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{name}:")
    )
