"""process_tree: who is below a process, and what they have used, as bench/spark counts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kept_process import KeptProcess
from support.processes import process_tree

# Has a child that says "1" and does what {} says.
PARENT = """
import subprocess, sys
code = "import sys, threading; print(1, flush=True); {}"
with subprocess.Popen([sys.executable, "-c", code]):
    pass
"""
PATIENCE_S = 20.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    return sum(os.times()[:4])


def test_descendants_are_found_and_their_ended_children_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format("sys.stdin.read()")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # both are there
        tree = process_tree.at_and_below(process.pid)
        assert tree[0].pid == process.pid
        assert [each.parent_pid for each in tree] == [os.getpid(), process.pid]
        program = Path(sys.executable).resolve().name
        assert [each.program for each in tree] == [program] * 2
        assert set(process_tree.cpu_s_by_program(process.pid)) == {program}
        assert all(each.peak_bytes > 0 and each.rss_bytes > 0 for each in tree)
        process.communicate()
    assert [each.is_running for each in tree] == [False, False]
    assert [(each.cpu_s, each.peak_bytes, each.program) for each in tree] == [(0.0, 0, "ended")] * 2
    (this,) = process_tree.itself(os.getpid())
    before_s, found_s, after_s = cpu_s(), this.cpu_s, cpu_s()
    assert before_s - TICK_S <= found_s <= after_s + TICK_S


def test_a_process_and_all_below_it_are_ended_and_waited_for(tmp_path: Path) -> None:
    waiting = PARENT.format("threading.Event().wait()")
    process = KeptProcess("parent", [sys.executable, "-c", waiting], tmp_path / "log")
    process.wait_for_output("1", PATIENCE_S)
    tree = process_tree.at_and_below(process.pid)
    process_tree.kill_all(process, PATIENCE_S)
    assert [each.is_running for each in tree] == [False, False]
    process_tree.kill_all(process, PATIENCE_S)
