"""`make test`: the tests in two runs side by side, as most of them wait for something.

Those that start clusters and Spark are one run, all others the other. The other's output is shown
as it is made, that of the clusters, from its log, behind it. Arguments go to both.
Exit code 1: a run failed, or was not done within the limit.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import checkout

CLUSTERS = ("interop", "spark")
LOG = "logs/test-clusters.log"
LIMIT_S = 3_600.0
_POLL_S = 0.2
_STOP_S = 60.0


def parts(tests: Path) -> tuple[list[Path], list[Path]]:
    """What is below `tests`: what starts clusters, and the rest.

    Raises:
        FileNotFoundError: a folder of clusters is not there.
    """
    clusters = [tests / name for name in CLUSTERS]
    for folder in clusters:
        if not any(folder.glob("test_*.py")):
            raise FileNotFoundError(f"{folder} has no tests: CLUSTERS of ci/run_tests.py is wrong")
    rest = [
        path
        for path in sorted(tests.iterdir())
        if path not in clusters and (path.match("test_*.py") or any(path.rglob("test_*.py")))
    ]
    return clusters, rest


def run(root: Path, arguments: Sequence[str], limit_s: float = LIMIT_S) -> int:
    """Run both; return the exit code.

    Blocks: until both are done, at most `limit_s`.
    """
    deadline_s = time.monotonic() + limit_s
    clusters, rest = parts(root / "tests")
    command = [sys.executable, "-m", "pytest", *arguments]
    log_path = root / LOG
    log_path.parent.mkdir(exist_ok=True)
    with log_path.open("wb") as log, log_path.open("rb") as made:
        first = subprocess.Popen(
            [*command, *map(str, clusters)], cwd=root, stdout=log, stderr=subprocess.STDOUT
        )
        second = subprocess.Popen([*command, *map(str, rest)], cwd=root)
        try:
            _wait(second, deadline_s)
            _wait(first, deadline_s, made)
        except KeyboardInterrupt:
            # Both had it too, and clean up.
            for each in (first, second):
                _wait(each, time.monotonic() + _STOP_S)
            raise
        except TimeoutError:
            print(f"not done within {limit_s:,.0f} s: ended")
        finally:
            for each in (first, second):
                each.kill()
                each.wait()
    print(f"\nclusters: exit code {first.returncode}; the rest: exit code {second.returncode}")
    return 0 if first.returncode == second.returncode == 0 else 1


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
    sys.exit(run(checkout.ROOT, sys.argv[1:]))
