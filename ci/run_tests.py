"""`make test`: the tests in several runs side by side, as most of them wait for something.

The last run's output is shown as it is made, that of the others, from their logs, behind it.
Arguments go to all. Exit code 1: a run failed, or was not done within the limit.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import checkout

# Folders below tests/ that have a run of their own.
PARTS = {
    "spark": ("spark",),
    "spark_jobs": ("spark_jobs",),
    "interop": ("interop",),
    "faults": ("faults", "threads"),
}
REST = "rest"
LOGS = "logs"
LIMIT_S = 3_600.0
_POLL_S = 0.2
_STOP_S = 60.0


def parts(tests: Path) -> dict[str, list[Path]]:
    """What is below `tests`, by run; the last has what no other has.

    Raises:
        FileNotFoundError: a folder of PARTS is not there.
    """
    found = {name: [tests / folder for folder in folders] for name, folders in PARTS.items()}
    taken = [folder for folders in found.values() for folder in folders]
    for folder in taken:
        if not any(folder.glob("test_*.py")):
            raise FileNotFoundError(f"{folder} has no tests: PARTS of ci/run_tests.py is wrong")
    found[REST] = [
        path
        for path in sorted(tests.iterdir())
        if path not in taken and (path.match("test_*.py") or any(path.rglob("test_*.py")))
    ]
    return found


def run(root: Path, arguments: Sequence[str], limit_s: float = LIMIT_S) -> int:
    """Run all; return the exit code.

    Blocks: until they are done, at most `limit_s`.
    """
    deadline_s = time.monotonic() + limit_s
    command = [sys.executable, "-m", "pytest", *arguments]
    children: dict[str, subprocess.Popen[bytes]] = {}
    logs: dict[str, BinaryIO] = {}
    with contextlib.ExitStack() as opened:
        for name, paths in parts(root / "tests").items():
            log = None if name == REST else _log(root, name, opened, logs)
            errors = None if log is None else subprocess.STDOUT
            children[name] = subprocess.Popen(
                [*command, *map(str, paths)], cwd=root, stdout=log, stderr=errors
            )
        try:
            for name in reversed(children):
                _wait(children[name], deadline_s, logs.get(name))
        except KeyboardInterrupt:
            # All had it too, and clean up.
            for each in children.values():
                _wait(each, time.monotonic() + _STOP_S)
            raise
        except TimeoutError:
            print(f"not done within {limit_s:,.0f} s: ended")
        finally:
            for each in children.values():
                each.kill()
                each.wait()
    codes = {name: child.returncode for name, child in children.items()}
    print("\nexit codes: " + ", ".join(f"{name} {code}" for name, code in codes.items()))
    return 1 if any(codes.values()) else 0


def _log(
    root: Path, name: str, opened: contextlib.ExitStack, logs: dict[str, BinaryIO]
) -> BinaryIO:
    """Open a run's log to write it; and, into `logs`, to read it."""
    path = root / LOGS / f"test-{name}.log"
    path.parent.mkdir(exist_ok=True)
    written = opened.enter_context(path.open("wb"))
    logs[name] = opened.enter_context(path.open("rb"))
    return written


def _wait(child: subprocess.Popen[bytes], deadline_s: float, made: BinaryIO | None = None) -> None:
    """Until it has ended; show what it has made meanwhile.

    Raises:
        TimeoutError: it runs at the deadline.
    """
    while True:
        has_ended = child.poll() is not None
        if made is not None:
            sys.stdout.write(made.read().decode(errors="replace"))
            sys.stdout.flush()
        if has_ended:
            return
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(_POLL_S)


if __name__ == "__main__":
    # Who is ended ends the runs, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(run(checkout.ROOT, sys.argv[1:]))
