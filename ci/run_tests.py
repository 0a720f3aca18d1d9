"""`make test`: the tests in several runs, some side by side, as most of them wait for something.

The first run's output is shown as it is made, that of the others, from their logs, behind it.
Arguments go to all. Exit code 1: a run failed, or was not done within the limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import checkout

# Folders below tests/ that have a run of their own; what takes longest comes first.
PARTS = {
    "interop": ("interop",),
    "spark": ("spark",),
    "broker": ("broker_faults", "unit/broker"),
    "faults": ("faults", "threads"),
    "chaos": ("chaos",),
    "spark_jobs": ("spark_jobs",),
}
REST = "rest"
# Runs at the same time. Those of faults and of chaos wait for most of their time; with more than
# these the cores are no busier, and tests wait longer for their turn.
AT_ONCE = 2 * (os.cpu_count() or 1) + 2
PYTEST = ("-m", "pytest")
LOGS = "logs"
LIMIT_S = 3_600.0
_POLL_S = 0.2
_STOP_S = 60.0


def parts(tests: Path) -> dict[str, list[Path]]:
    """What is below `tests`, by run; the first has what no other has.

    Raises:
        FileNotFoundError: a folder of PARTS is not there.
    """
    found = {name: [tests / folder for folder in folders] for name, folders in PARTS.items()}
    taken = {folder for folders in found.values() for folder in folders}
    for folder in taken:
        if not any(folder.glob("**/test_*.py")):
            raise FileNotFoundError(f"{folder} has no tests: PARTS of ci/run_tests.py is wrong")
    return {REST: list(_others(tests, taken)), **found}


def _others(folder: Path, taken: set[Path]) -> Iterator[Path]:
    """The tests and folders of tests in `folder`, without those that are taken."""
    for path in sorted(folder.iterdir()):
        if path in taken:
            continue
        if any(path in each.parents for each in taken):
            yield from _others(path, taken)
        elif path.match("test_*.py") or any(path.rglob("test_*.py")):
            yield path


class _Runs:
    """The child processes by name, and the logs of those whose output is shown later."""

    def __init__(self, root: Path, opened: contextlib.ExitStack) -> None:
        self._root = root
        self._opened = opened
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, BinaryIO] = {}

    def start(self, name: str, *command: str, shown: bool = False) -> None:
        """Start one; its output is shown at once, or goes into its log."""
        log, errors = None, None
        if not shown:
            path = self._root / LOGS / f"test-{name}.log"
            path.parent.mkdir(exist_ok=True)
            log, errors = self._opened.enter_context(path.open("wb")), subprocess.STDOUT
            self.logs[name] = self._opened.enter_context(path.open("rb"))
        self.children[name] = subprocess.Popen(
            [sys.executable, *command], cwd=self._root, stdout=log, stderr=errors
        )

    def wait_for_room(self, at_once: int, deadline_s: float) -> None:
        """Until fewer than so many run.

        Raises:
            TimeoutError: as many run at the deadline.
        """
        while sum(child.poll() is None for child in self.children.values()) >= at_once:
            self._wait_a_little(deadline_s)

    def wait(self, name: str, deadline_s: float) -> int:
        """Until it has ended; show what it has made meanwhile; return its exit code.

        Raises:
            TimeoutError: it runs at the deadline.
        """
        child, made = self.children[name], self.logs.get(name)
        while True:
            code = child.poll()
            if made is not None:
                sys.stdout.write(made.read().decode(errors="replace"))
                sys.stdout.flush()
            if code is not None:
                return code
            self._wait_a_little(deadline_s)

    @staticmethod
    def _wait_a_little(deadline_s: float) -> None:
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(_POLL_S)

    def kill(self) -> None:
        """End those that are left."""
        for each in self.children.values():
            each.kill()
            each.wait()


def run(
    root: Path,
    arguments: Sequence[str],
    limit_s: float = LIMIT_S,
    at_once: int = AT_ONCE,
    tests: Sequence[str] = PYTEST,
) -> int:
    """Run all; return the exit code.

    Args:
        root: the checkout.
        arguments: for each run.
        limit_s: of all.
        at_once: how many runs there are at the same time, at most.
        tests: Python's arguments to run tests; those of the run and its folders follow.

    Blocks: until they are done, at most `limit_s`.
    """
    deadline_s = time.monotonic() + limit_s
    every = parts(root / "tests")
    with contextlib.ExitStack() as opened:
        runs = _Runs(root, opened)
        opened.callback(runs.kill)
        try:
            for name in every:
                runs.wait_for_room(at_once, deadline_s)
                runs.start(name, *tests, *arguments, *map(str, every[name]), shown=name == REST)
            for name in runs.children:
                runs.wait(name, deadline_s)
        except KeyboardInterrupt:
            # All had it too, and clean up.
            for name in runs.children:
                runs.wait(name, time.monotonic() + _STOP_S)
            raise
        except TimeoutError:
            print(f"not done within {limit_s:,.0f} s: ended")
    codes = {name: child.returncode for name, child in runs.children.items()}
    missing = [name for name in every if name not in codes]
    print("\nexit codes: " + ", ".join(f"{name} {code}" for name, code in codes.items()))
    if missing:
        print(f"not run: {', '.join(missing)}")
    return 1 if missing or any(codes.values()) else 0


if __name__ == "__main__":
    # Who is ended ends the runs, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(run(checkout.ROOT, sys.argv[1:]))
