"""fastprod.cli.command: how commands are found, and how their failures are told."""

from __future__ import annotations

import pkgutil
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from fastprod.cli import commands
from fastprod.cli.command import COMMANDS, CommandLine, fastprod
from fastprod.cli.output.failure import RecordsFailed
from fastprod.errors import KafkaError
from fastprod.version import VERSION
from unit.cli.conftest import Run


def test_the_version_is_the_packages(run: Run) -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"fastprod {VERSION}\n")


def test_without_a_command_the_help_comes_and_exit_code_2(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert result.stdout == ""
    for name in COMMANDS:
        assert f"  {name} " in result.stderr


def test_each_command_has_a_module_and_each_module_is_one() -> None:
    modules = {module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__)}
    assert modules == set(COMMANDS)
    assert list(COMMANDS) == sorted(COMMANDS)


def test_a_command_does_not_wait_for_the_imports_of_the_others() -> None:
    code = (
        "import sys, fastprod.cli.command as c\n"
        "c.fastprod.get_command(None, 'broker')\n"
        "sys.exit(any(m.split('.')[0] in ('numpy', 'rich') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_tells_its_exit_codes(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    told = " ".join(result.stdout.split())
    assert "Exit codes: 0 all went well; 1 records failed" in told
    assert "2 the command or a setting is wrong, what it needs is missing here, or" in told
    assert "its output cannot be written" in told
    assert "3 the cluster or the topic cannot be reached, nothing was sent" in told
    assert "130 Ctrl-C" in told


def test_a_wrong_command_takes_one_line(run: Run) -> None:
    result = run("bogus")
    assert result.exit_code == 2
    assert result.stderr == "fastprod: No such command 'bogus'. (fastprod --help tells more)\n"


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (RecordsFailed("3 of\n4"), 1, "fastprod broken: 3 of 4\n"),
        (KafkaError("no luck"), 1, "fastprod: no luck\n"),
        (KeyboardInterrupt(), 130, "fastprod: interrupted\n"),
        (click.UsageError("no"), 2, "fastprod broken: no (fastprod broken --help tells more)\n"),
        (click.FileError("f", "gone"), 1, "fastprod: Could not open file 'f': gone\n"),
    ],
)
def test_what_a_command_raises_becomes_a_line_and_an_exit_code(
    raised: BaseException, code: int, told: str
) -> None:
    group = CommandLine("fastprod")

    @group.command()
    def broken() -> None:
        if isinstance(raised, RecordsFailed):
            # Where a failure comes from it learns when it is made.
            raise RecordsFailed(raised.message)
        raise raised

    result = CliRunner().invoke(group, ["broken"])
    assert (result.exit_code, result.stderr, result.stdout) == (code, told, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_processes_ends_a_command_as_ctrl_c_does(
    number: signal.Signals,
) -> None:
    group = CommandLine("fastprod")
    ended = []

    @group.command()
    def waiting() -> None:
        try:
            signal.raise_signal(number)
        finally:
            ended.append("cleanly")

    # Otherwise a failure would end this process.
    before = signal.signal(number, lambda *_: None)
    try:
        result = CliRunner().invoke(group, ["waiting"])
    finally:
        signal.signal(number, before)
    assert (result.exit_code, result.stderr, ended) == (130, "fastprod: interrupted\n", ["cleanly"])


def test_a_bug_is_not_swallowed() -> None:
    group = CommandLine("fastprod")

    @group.command()
    def broken() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(group, ["broken"]).exception, ZeroDivisionError)


def test_without_standalone_mode_click_does_it_all() -> None:
    with pytest.raises(click.UsageError):
        fastprod.main(["bogus"], standalone_mode=False)
