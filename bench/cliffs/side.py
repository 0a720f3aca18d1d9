"""Side: a built checkout, and processes that run its fastprod."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_INSIDE = Path(__file__).with_name("inside.py")
_CLIENT_TIMEOUT_S = 400.0

Figures = dict[str, float]


class WrongResult(RuntimeError):
    """A process failed or did not do what it was to do: its figures mean nothing."""


@dataclasses.dataclass(frozen=True)
class Side:
    """One of the two that are compared.

    Args:
        label: head of its column.
        root: the checkout, built in place; its `.venv/bin/python` is used if it has one.
    """

    label: str
    root: Path

    def command(self, module: str, *arguments: str) -> list[str]:
        """A command that runs `module` of this benchmark with this side's fastprod."""
        own = self.root / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        return [python, str(_INSIDE), str(self.root), module, *arguments]

    def environment(self) -> dict[str, str]:
        """Of such a process: nothing of this checkout is found before `inside` says so."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(self, module: str, given: dict[str, Any]) -> Figures:
        """Run `module`'s `work` in a fresh process; return its figures.

        Raises:
            WrongResult: it failed, or was not done in time.

        Blocks: until the process ends, at most _CLIENT_TIMEOUT_S.
        """
        try:
            done = subprocess.run(
                self.command(module, json.dumps(given)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_CLIENT_TIMEOUT_S,
                check=False,
                env=self.environment(),
            )
        except subprocess.TimeoutExpired as error:
            raise WrongResult(f"{module}: not done within {_CLIENT_TIMEOUT_S} s") from error
        if done.returncode != 0:
            raise WrongResult(f"{module} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        found: Figures = json.loads(done.stdout)
        return found


def serve(work: Callable[[dict[str, Any]], Figures]) -> None:
    """The main of a measured client: do the work of the command line, print the figures."""
    figures = work(json.loads(sys.argv[1]))
    print(json.dumps(figures), flush=True)
    # Nothing to close: the client's goodbye is not part of the benchmark.
    os._exit(0)
