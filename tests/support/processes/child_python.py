"""Scripts run by a Python of their own: what may crash, hang or exit must not take pytest along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

from checkout import ROOT

PATIENCE_S = 60
# A script that hangs is asked where each of its threads is. (The watchdog of faulthandler would be
# a thread, and a forked child waits for its end in vain.)
_ASKED = """
import faulthandler, signal
faulthandler.register(signal.SIGUSR1, all_threads=True)
"""


class Finished:
    """How a script ended.

    Attributes:
        code: its exit code; minus the signal that killed it.
        output: its standard output.
        errors: its standard error.
    """

    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code = code
        self.output = output
        self.errors = errors

    @property
    def told(self) -> dict[str, Any]:
        """The object that the script printed, as JSON, in its last line."""
        assert self.code == 0, self
        found: dict[str, Any] = json.loads(self.output.splitlines()[-1])
        return found

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- output\n{self.output}\n--- errors\n{self.errors}"


def start_python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a script; it can import fastprod, and the modules of ci/ and tests/."""
    path = [*(str(ROOT / name) for name in ("", "tests", "ci")), *sys.path]
    return subprocess.Popen(
        [
            *(sys.executable, "-X", "faulthandler", "-W", "error"),
            # Python 3.12 warns of what the fork tests are about.
            *("-W", "ignore:This process:DeprecationWarning", "-c"),
            _ASKED + textwrap.dedent(script),
            *arguments,
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = PATIENCE_S) -> Finished:
    """Wait for its end, and for the end of whoever inherited its output; at most `seconds`."""
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    return Finished(process.returncode, output, errors)


def run_python(script: str, *arguments: str, seconds: float = PATIENCE_S) -> Finished:
    """Run a script to its end."""
    return finish(start_python(script, *arguments), seconds)
