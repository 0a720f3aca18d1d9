"""One run of one client in a process of its own, its answer verified."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.free_memory import touch_free_memory
from bench.machine_load import FOREIGN_LIMIT, MachineLoad, wait_until_quiet
from bench.meter import Outcome
from bench.servers.server import Server, committed_count, create_topics, delete_topics, end_offset
from bench.workload import SPREAD, Workload

RUN_TIMEOUT_S = 180.0
_QUIET_TIMEOUT_S = 3.0
_TOUCHED_BYTES = 2 << 30
_SPINNER = "while True: pass"


class WrongAnswer(RuntimeError):
    """A client failed, or did not deliver what it was given: its time means nothing."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """One line of a table.

    Args:
        label: name of the line.
        peer: module below bench.peers.
        workload: what it is to do.
        beside_spinner: a process that spins in pure Python runs meanwhile.
        reaches_server: False: it sends its bytes elsewhere, and accounts for them itself.
    """

    label: str
    peer: str
    workload: Workload
    beside_spinner: bool = False
    reaches_server: bool = True


@dataclasses.dataclass(frozen=True)
class Run:
    """One run; `foreign_share` is what other processes took of the machine meanwhile."""

    outcome: Outcome
    foreign_share: float

    @property
    def is_disturbed(self) -> bool:
        return self.foreign_share > FOREIGN_LIMIT


def run(contender: Contender, server: Server) -> Run:
    """Run it once, in a moment when others are quiet if there is one.

    Raises:
        WrongAnswer: what arrived is not what was sent.

    Blocks: until the client ends, at most RUN_TIMEOUT_S and a few seconds.
    """
    topic = server.new_topic()
    workload = dataclasses.replace(
        contender.workload,
        bootstrap_servers=server.client_servers,
        ca_file=server.ca_file,
        topic=topic,
    )
    names = workload.topic_names
    is_spread = workload.way == SPREAD
    if is_spread:
        create_topics(server.bootstrap_servers, names, workload.partitions, workload.nodes)
    try:
        if server.keeps_records:
            touch_free_memory(_TOUCHED_BYTES)
        wait_until_quiet(server.pids, _QUIET_TIMEOUT_S)
        with _spinner(contender.beside_spinner) as spinner_pids:
            load = MachineLoad([*server.pids, *spinner_pids])
            answer = _run_peer(contender, workload)
            foreign_share = load.foreign_share()
        outcome = Outcome.from_json(answer)
        arrived = _arrived(server, workload) if contender.reaches_server else None
        _verify(contender, outcome, arrived)
        return Run(outcome, foreign_share)
    finally:
        server.drop_topic(topic)
        if is_spread:
            delete_topics(server.bootstrap_servers, names)


def _arrived(server: Server, workload: Workload) -> int:
    """What the server's logs say."""
    if workload.transaction_records:
        return committed_count(server.bootstrap_servers, workload.topic)
    return end_offset(server.bootstrap_servers, workload.topic_names)


def _run_peer(contender: Contender, workload: Workload) -> str:
    command = [sys.executable, "-m", f"bench.peers.{contender.peer}", workload.to_json()]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WrongAnswer(f"{contender.label}: not done within {RUN_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise WrongAnswer(
            f"{contender.label} ended with code {done.returncode}:\n{done.stderr[-3000:]}"
        )
    return done.stdout


def _verify(contender: Contender, outcome: Outcome, arrived: int | None) -> None:
    """`arrived`: None where the server cannot know."""
    label, acknowledged = contender.label, outcome.acknowledged_count
    if outcome.record_count != contender.workload.record_count:
        raise WrongAnswer(
            f"{label}: {outcome.record_count:,} records acknowledged of "
            f"{contender.workload.record_count:,}"
        )
    if arrived not in (None, acknowledged):
        raise WrongAnswer(f"{label}: {acknowledged:,} acknowledged, the log has {arrived:,}")


@contextlib.contextmanager
def _spinner(is_wanted: bool) -> Iterator[list[int]]:
    if not is_wanted:
        yield []
        return
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", _SPINNER]) as process:
        try:
            yield [process.pid]
        finally:
            process.kill()


def serve(work: Callable[[Workload], Outcome]) -> None:
    """The main of a peer: do the workload of the command line, print the outcome."""
    outcome = work(Workload.from_json(sys.argv[1]))
    print(outcome.to_json(), flush=True)
    # Nothing to close: a client's long goodbye is not part of the benchmark.
    os._exit(0)
