"""The long acceptance runs, one step after the other; a step that passed is not repeated.

Each step has a log of its own, logs/accept-<step>.log. What passed is kept in logs/accept.json
together with a fingerprint of the sources that the step builds on: with others it is due again.
Exit code 1: a step failed, or was not run because it cannot be.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checkout
from used_helpers import is_helper, used_helpers

LOGS = "logs"
SOURCE_FOLDERS = ("bench", "ci", "fastprod", "tests")
FULL_SIZE = {"FASTPROD_SCALE": "100"}
TAIL_LINES = 15
# The tests have time limits of their own; a long one is no reason for a dump of all threads.
NO_DUMP = ("-o", "faulthandler_timeout=0")
STOP_S = 30.0
ENDING = (signal.SIGINT, signal.SIGTERM)
ALL_TESTS = ("tests/",)
FEW_USE = ("spark", "aio")
# Of these the step's command and environment count instead.
OWN_SOURCES = (Path("ci/accept.py"), Path("ci/used_helpers.py"))
# Of these the steps alone that run them, or all tests.
OWN_SCRIPTS = (Path("ci/chaos.py"),)


@dataclass(frozen=True)
class Step:
    """One long check.

    Attributes:
        name: of the step and its log.
        what: what it proves, in a line.
        command: program and arguments, run in the checkout's root.
        limit_s: killed after so long.
        env: added to the environment.
        uses: the tests that it runs, and the rooms of benchmarks, of Spark's jobs and of asyncio:
            files or folders. Of tests/support what these use, of conftest.py's those in their
            folders count; all other sources count for every step.
    """

    name: str
    what: str
    command: tuple[str, ...]
    limit_s: float
    env: Mapping[str, str] = field(default_factory=dict)
    uses: tuple[str, ...] = ()

    def builds_on(self, source: Path) -> bool:
        """Whether a change of this file, relative to the checkout, can change the result."""
        if source.parts[0] == "tests" and source.name.startswith("test_"):
            return any(source.is_relative_to(each) for each in self.uses)
        if source.parts[0] == "tests" and source.name == "conftest.py":
            folder = source.parent
            return any(
                source.is_relative_to(each) or Path(each).is_relative_to(folder)
                for each in self.uses
            )
        if source in OWN_SOURCES:
            return False
        if source in OWN_SCRIPTS:
            return str(source) in self.command or ALL_TESTS[0] in self.uses
        special = _special(source)
        return not special or any(
            each in ALL_TESTS or special & _special(Path(each)) for each in self.uses
        )

    def sources(self, root: Path, every: Sequence[Path]) -> list[Path]:
        """Those of `every` that can change the result, in that order; relative to `root`."""
        found = [source for source in every if self.builds_on(source)]
        users = [each for each in found if not is_helper(each) and each.parts[0] != "fastprod"]
        used = used_helpers(root, users, found)
        return [source for source in found if source in used or not is_helper(source)]


def _special(source: Path) -> set[str]:
    """Of what few steps use, what this belongs to; Spark's benchmarks are a room of their own."""
    rooms = {room for room in FEW_USE for part in source.parts if part.startswith(room)}
    if source.parts[0] == "bench":
        return {"bench of spark"} if "spark" in rooms else {"bench"}
    return rooms


def pytest_step(name: str, what: str, limit_s: float, *arguments: str) -> Step:
    """A step that is a test at its full size; what the test prints is in the log."""
    command = (sys.executable, "-m", "pytest", "-q", "-s", *NO_DUMP, *arguments)
    uses = tuple(part for part in arguments if part.startswith("tests/"))
    return Step(name, what, command, limit_s, FULL_SIZE, uses)


def broker_steps() -> list[Step]:
    """Those of our own broker."""
    return [
        pytest_step(
            "broker-million",
            "1,000,000 records, each codec, and kill -9, on our own broker",
            2_700,
            "tests/interop/test_broker_million.py",
        ),
        pytest_step(
            "broker-kill",
            "our broker's log killed 100 times in the middle of writes",
            1_200,
            "tests/broker_faults/test_log_kill.py",
        ),
        pytest_step(
            "broker-replicas",
            "100 leaders of our broker killed under load of two clients, nothing lost or twice",
            1_200,
            "tests/broker_faults/test_replica_kill.py",
        ),
        pytest_step(
            "broker-reassignments",
            "kafka-reassign-partitions.sh on our broker, under load of another client",
            300,
            *("tests/interop/test_reassignments.py", "-m", "long"),
        ),
        pytest_step(
            "broker-coordinators",
            "60 coordinators of each kind killed between the calls of their clients",
            1_200,
            "tests/broker_faults/test_coordinator_kill.py",
        ),
        pytest_step(
            "clients",
            "clients and tools of others on our broker, each loop killed 10 times: docs/clients.md",
            3_600,
            *("-m", "client", "--clients-table", "docs/clients.md", "tests/interop"),
        ),
    ]


def chaos_steps() -> list[Step]:
    """All that goes wrong at once; a seed that has passed is not run again."""
    clusters = {"ours": "our broker", "apache": "Apache Kafka, 3 nodes"}
    chaos = [
        Step(
            f"chaos-{name}",
            f"20 seeds of 60 s, faults of network and nodes, {what}",
            (sys.executable, "ci/chaos.py", "--cluster", name),
            7_200,
        )
        for name, what in clusters.items()
    ]
    return [
        *chaos,
        pytest_step(
            "coordinator-kills",
            "the transaction coordinator of Apache Kafka killed 50 times at each call",
            7_200,
            *("tests/interop/test_coordinator_kills.py", "-m", "long"),
        ),
        pytest_step(
            "two-phase-commit",
            "Apache Kafka keeps nothing that was prepared (KIP-939)",
            600,
            *("tests/interop/test_transactions.py", "-m", "long"),
        ),
        pytest_step(
            "left-open",
            "what Apache Kafka leaves open, and the judge of the chaos forgives (KAFKA-20734)",
            600,
            *("tests/interop/test_left_open.py", "-m", "long"),
        ),
        pytest_step(
            "zombies",
            "100 of 100 zombies are fenced, on both clusters",
            600,
            "tests/interop/test_zombies.py",
        ),
        pytest_step(
            "all-down",
            "all brokers down for 60 s and back on other ports, on both clusters",
            1_200,
            "tests/interop/test_all_down.py",
        ),
    ]


def security_steps() -> list[Step]:
    """Those of TLS and SASL."""
    million = "tests/interop/test_secured_million.py"
    return [
        pytest_step(
            "secured-million",
            "1,000,000 records by SCRAM, by short tokens and by certificates, 3 nodes",
            3_600,
            *(million, "-k", "secured_kafka"),
        ),
        pytest_step(
            "secured-broker-million",
            "1,000,000 records on our own broker, read back over SASL_SSL by four clients",
            2_700,
            *(million, "-k", "our_secured_broker"),
        ),
        pytest_step(
            "security-changes",
            "20,000 records/s for 30 s while certificates, authorities and passwords change",
            1_800,
            "tests/interop/test_security_changes.py",
        ),
        pytest_step(
            "sasl-fuzz",
            "1,000,000 damaged messages of SASL, of clients and of brokers",
            3_600,
            "tests/property/test_sasl_fuzz.py",
        ),
    ]


def spark_steps() -> list[Step]:
    """Those of the Spark sink."""
    return [
        pytest_step(
            "spark-kills",
            "30 writes by Spark with workers, executors, drivers and Kafka's nodes killed",
            7_200,
            *("tests/spark_jobs/test_job_kills.py", "-m", "long"),
        ),
        pytest_step(
            "spark-big-write",
            "100,000,000 rows by Spark, 10 GB, in bounded memory",
            3_600,
            *("tests/spark/test_big_write.py", "-m", "long"),
        ),
        pytest_step(
            "spark-load",
            "5,000,000 rows by spark-load, interrupted 12 times and run again",
            3_600,
            *("tests/spark_jobs/test_big_load.py", "-m", "long", "-k", "interrupted"),
        ),
        pytest_step(
            "spark-cluster",
            "spark-load on a standalone cluster of Spark's, master and two workers",
            900,
            "tests/spark_jobs/test_standalone.py",
        ),
    ]


def bench_steps() -> list[Step]:
    """The benchmarks."""
    return [
        Step(
            "peers",
            "the benchmarks, against rivals and limits",
            ("bench/run", "--accept"),
            7_200,
            uses=("bench", "fastprod/aio"),
        ),
        Step(
            "spark-peers",
            "our Spark sink beside Spark's own, against the limits",
            ("bench/spark_run",),
            10_800,
            uses=("bench", "bench/spark", "fastprod/spark"),
        ),
    ]


def marked_tests(root: Path, mark: str) -> tuple[str, ...]:
    """The tests that may have this mark of pytest's, relative to the checkout.

    Files that name it, and folders whose conftest.py does: it may mark what uses its fixtures.
    """
    found = set()
    for path in checkout.files(root):
        name = path.relative_to(root)
        is_test = name.name.startswith("test_") or name.name == "conftest.py"
        if name.parts[0] == "tests" and is_test and f".{mark}" in path.read_text():
            found.add(str(name.parent if name.name == "conftest.py" else name))
    return tuple(sorted(found))


def rest_steps() -> list[Step]:
    """What `make test` has no time for."""
    slow = pytest_step(
        "slow",
        "what `make test` leaves out for the time it takes",
        3_600,
        *("-m", "slow", *ALL_TESTS),
    )
    rooms = ("bench", "bench/spark", "fastprod/spark", "fastprod/aio")
    return [
        dataclasses.replace(slow, uses=(*marked_tests(checkout.ROOT, "slow"), *rooms)),
        pytest_step(
            "properties",
            "every example of the properties, of which `make test` tries a tenth",
            3_600,
            *("tests/property", "--ignore", "tests/property/test_sasl_fuzz.py"),
        ),
    ]


def steps() -> list[Step]:
    """Every step, in order."""
    million = "tests/interop/test_million.py"
    return [
        *rest_steps(),
        pytest_step(
            "million-full",
            "1,000,000 records, defaults, 3 nodes, read back by two clients",
            2_700,
            *(million, "-k", "a_million"),
        ),
        pytest_step(
            "codecs-full",
            "200,000 records with each codec, read back by two clients",
            3_600,
            *(million, "-k", "compressed"),
        ),
        pytest_step(
            "chaos-100s",
            "20,000 records/s for 100 s, five leaders killed",
            1_500,
            "tests/interop/test_chaos.py",
        ),
        pytest_step(
            "partitions-5000",
            "5,000 open partitions within the default buffer_memory",
            900,
            *("tests/interop/test_topics.py", "-k", "thousands"),
        ),
        pytest_step(
            "soak",
            "30 min of records and transactions, nodes restarted in turn, nothing grows",
            4_500,
            "tests/interop/test_soak.py",
        ),
        Step(
            "threads",
            "ThreadSanitizer: 10 min of callers, loops, flushes, signals and closes; the faults",
            ("ci/sanitize", "--threads"),
            5_400,
            FULL_SIZE,
            ("tests/threads", "tests/faults", "fastprod/aio"),
        ),
        Step(
            "wheel",
            "sdist and wheel, installed without a compiler and a checkout",
            (shutil.which("make") or "make", "-f", "Makefile", "wheel"),
            1_800,
            uses=ALL_TESTS,
        ),
        *chaos_steps(),
        *broker_steps(),
        *security_steps(),
        *spark_steps(),
        *bench_steps(),
    ]


def fingerprint(root: Path, step: Step | None = None, without: Collection[Path] = ()) -> str:
    """A hash of the step, and of every source that it builds on; without a step: of every one.

    Files of `without`, relative to the checkout, do not count.
    """
    found = hashlib.sha256()
    if step is not None:
        found.update(repr((step.command[1:], sorted(step.env.items()))).encode())
    names = [path.relative_to(root) for path in checkout.files(root)]
    names = [name for name in names if name.parts[0] in SOURCE_FOLDERS or len(name.parts) == 1]
    names = [name for name in names if name.suffix != ".md" and name not in without]
    for name in names if step is None else step.sources(root, names):
        found.update(f"{name}\0".encode())
        found.update(hashlib.sha256((root / name).read_bytes()).digest())
    return found.hexdigest()[:16]


class State:
    """What was run, by step: in a file, so that an interrupted run goes on where it was.

    Args:
        path: the file; made by the first `note`.
        root: of the checkout; results of other sources do not count.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._results = self._read()

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return found

    def passed(self, step: Step) -> bool:
        """Whether the step has passed with these sources."""
        found = self._results.get(step.name, {})
        return bool(found.get("passed")) and found["sources"] == fingerprint(self._root, step)

    def seconds(self, step: str) -> float:
        """How long the step's last run took."""
        return float(self._results[step]["seconds"])

    def note(self, step: Step, sources: str, passed: bool, seconds: float) -> None:
        """Keep a result; `sources`: fingerprint of what has run."""
        self._results = self._read()  # another run, of other steps, may have ended one meanwhile
        self._results[step.name] = {
            "sources": sources,
            "passed": passed,
            "seconds": round(seconds, 1),
            "ended": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._results, indent=2) + "\n")
        part.replace(self._path)


def run(step: Step, root: Path, log_path: Path) -> str:
    """Run one step to its end; "" if it passed, else why not."""
    if step.command[0] != sys.executable and not (root / step.command[0]).exists():
        return f"{step.command[0]} does not exist"
    environment = {**os.environ, "PYTHON": sys.executable, **step.env}
    with log_path.open("wb") as log:
        # A signal that comes while the child is being started waits until there is one to be ended.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            child = subprocess.Popen(
                step.command,
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_heed_at_once,
            )
            try:
                _heed_at_once()
                code = child.wait(step.limit_s)
            except subprocess.TimeoutExpired:
                _stop(child)
                return f"not done after {step.limit_s:,.0f} s"
            except BaseException:
                _stop(child)
                raise
        finally:
            _heed_at_once()
    return "" if code == 0 else f"exit code {code}"


def _heed_at_once() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Let the tests clean up, then end the whole group."""
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def tail(log_path: Path, line_count: int) -> list[str]:
    """The last lines of a log."""
    if not log_path.exists():
        return []
    return log_path.read_text(errors="replace").splitlines()[-line_count:]


def run_all(
    chosen: Sequence[Step], root: Path, *, again: bool = False, name: str = "accept"
) -> int:
    """Run what is due; print a summary; return the exit code.

    Args:
        chosen: in this order.
        root: of the checkout.
        again: also what has passed.
        name: that logs and the file of results begin with.
    """
    logs = root / LOGS
    logs.mkdir(exist_ok=True)
    state = State(logs / f"{name}.json", root)
    failures: dict[str, str] = {}
    for step in chosen:
        log_path = logs / f"{name}-{step.name}.log"
        if state.passed(step) and not again:
            print(f"{step.name}: passed before with these sources", flush=True)
            continue
        print(f"{step.name}: {step.what}; log: {log_path.relative_to(root)}", flush=True)
        sources = fingerprint(root, step)
        began_s = time.monotonic()
        reason = run(step, root, log_path)
        seconds = time.monotonic() - began_s
        state.note(step, sources, not reason, seconds)
        if reason:
            failures[step.name] = reason
            print("\n".join(tail(log_path, TAIL_LINES)))
        print(f"{step.name}: {reason or 'passed'}, {seconds:,.1f} s", flush=True)
    print("\nstep                 result   seconds  the log's last line")
    for step in chosen:
        last = tail(logs / f"{name}-{step.name}.log", 1)
        result = "FAILED" if step.name in failures else "passed"
        print(
            f"{step.name:20} {result:8} {state.seconds(step.name):7,.1f}  "
            f"{failures.get(step.name) or ''.join(last)}"
        )
    return 1 if failures else 0


def heed_signals() -> None:
    """Let Ctrl-C, also where a shell has put this in the background, and kill end the step, too."""
    for number in ENDING:
        signal.signal(number, signal.default_int_handler)


def main(argv: list[str]) -> int:
    """Parse the command line and run; return the exit code."""
    every = steps()
    parser = argparse.ArgumentParser(prog="ci/accept.py", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the steps and end")
    parser.add_argument(
        "--only",
        action="append",
        metavar="STEP",
        choices=[step.name for step in every],
        help="run this step; may be given several times",
    )
    parser.add_argument("--again", action="store_true", help="repeat what has passed, too")
    given = parser.parse_args(argv)
    chosen = [step for step in every if given.only is None or step.name in given.only]
    if given.list:
        for step in chosen:
            print(f"{step.name:20} {step.what}")
        return 0
    return run_all(chosen, checkout.ROOT, again=given.again)


if __name__ == "__main__":
    heed_signals()
    sys.exit(main(sys.argv[1:]))
