"""fastprod.cli.entry: the command line without the packages that it needs."""

from __future__ import annotations

import pytest

from support.peer.fixtures import PeerFactory
from support.processes.child_python import finish, run_python, start_python

# A module that is None in sys.modules cannot be imported, as if it were not installed.
_RUN = """
import runpy, sys
without, argument = sys.argv.pop(1), sys.argv[1]
sys.modules[without] = None
{run}
"""
WAYS = {
    "python -m fastprod": "runpy.run_module('fastprod', run_name='__main__')",
    "fastprod": "from fastprod.cli import main; main()",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_packages_it_says_what_to_install(way: str, missing: str) -> None:
    done = run_python(_RUN.format(run=WAYS[way]), missing, "perf", "--help")
    assert (done.code, done.output) == (2, "")
    assert done.errors == (
        f"fastprod: {missing} is not installed here: python -m pip install 'fastprod[cli]'\n"
    )


def test_another_module_that_is_missing_is_a_fault_of_ours() -> None:
    module = "fastprod.cli.commands.perf"
    done = run_python(_RUN.format(run=WAYS["fastprod"]), module, "perf", "--help")
    assert done.code == 1
    assert "ModuleNotFoundError" in done.errors
    assert "pip install" not in done.errors


_INTERRUPTED = """
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from fastprod.cli import main
main()
"""


@pytest.mark.parametrize("module", ["fastprod.cli.command", "fastprod.cli.commands.perf"])
def test_an_interrupt_during_the_imports_takes_one_line(module: str) -> None:
    done = run_python(_INTERRUPTED.format(module=module), "perf", "--help")
    assert (done.code, done.output, done.errors) == (130, "", "fastprod: interrupted\n")


_CLOSED = """
import os, sys
sys.argv = ["fastprod", "produce", "one", "-b", sys.argv[1]]
for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
    if name in {closed!r}:
        os.close(number)
        setattr(sys, name, None)
from fastprod.cli import main
main()
"""


def test_lines_are_sent_where_stdout_and_stderr_are_closed(new_peer: PeerFactory) -> None:
    peer = new_peer(topics={"one": 1})
    process = start_python(_CLOSED.format(closed=["stdout", "stderr"]), peer.bootstrap_servers)
    assert process.stdin is not None
    process.stdin.write("a\nb\n")
    assert finish(process).code == 0
    assert peer.values("one", 0) == [b"a", b"b"]


def test_a_closed_stdin_cannot_be_read(new_peer: PeerFactory) -> None:
    peer = new_peer(topics={"one": 1})
    done = run_python(_CLOSED.format(closed=["stdin"]), peer.bootstrap_servers)
    assert done.code == 1
    assert "the first: reading failed: " in done.errors


def test_with_them_it_runs_the_command() -> None:
    done = run_python(_RUN.format(run=WAYS["fastprod"]), "no_such_module", "--version")
    assert (done.code, done.errors) == (0, "")
    assert done.output.startswith("fastprod ")
