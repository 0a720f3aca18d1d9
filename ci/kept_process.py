"""KeptProcess: a child process with a log file, sure to end when its starter ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
_ERROR = re.compile(r"ERROR|FATAL|Exception|Error:")
POLL_S = 0.02


class ProcessFailed(RuntimeError):
    """A child ended, or did not get ready or stop in time; the text carries its log's tail."""


class KeptProcess:
    """One command under a keeper (see keeper.py), its output appended to `log_path`.

    Args:
        name: how errors call it.
        command: program and arguments.
        log_path: file that receives standard output and error; made if absent.
        folder: removed by the keeper if this process dies without `stop`; None removes nothing.
        env: environment of the command; None: this process's.

    Threads: any, one at a time.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._log_start = log_path.stat().st_size if log_path.exists() else 0
        self._owner_pid = os.getpid()
        with log_path.open("ab") as log:
            self._keeper = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(KEEPER)),
                    *(str(self._owner_pid), "-" if folder is None else str(folder), "--"),
                    *command,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=None if env is None else dict(env),
                start_new_session=True,
            )
        assert self._keeper.stdout is not None
        first_line = self._keeper.stdout.readline()
        if not first_line:
            self.reap(5.0)
            raise ProcessFailed(f"{name}: could not run {command[0]}\n{self.log_tail()}")
        self.pid = int(first_line)

    @property
    def is_running(self) -> bool:
        """True until the command has ended."""
        return self._keeper.poll() is None

    def output(self) -> str:
        """What the command has written since it was started."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def log_tail(self, line_count: int = 40) -> str:
        """The last lines of the log, and before them those that name an error, for error texts."""
        before, lines = (every := self.output().splitlines())[:-line_count], every[-line_count:]
        # A server that ends says why, and then much about how it ends.
        errors = [each for each in before if _ERROR.search(each)][:line_count]
        told = [f"--- errors before in {self.name}'s log ---", *errors] if errors else []
        told.append(f"--- last {len(lines)} lines of {self.name}'s log ---")
        return "\n".join(told + lines)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command; nothing happens if it has ended."""
        if os.getpid() != self._owner_pid:
            raise RuntimeError(f"{self.name} belongs to process {self._owner_pid}")
        assert self._keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.write(b"%d\n" % number)
            self._keeper.stdin.flush()

    def wait_for_output(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """Block until the output has `pattern`; return the match.

        Raises: ProcessFailed when the command ends first or `timeout_s` passes.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            running = self.is_running
            if found := re.search(pattern, self.output()):
                return found
            if not running:
                code = self._keeper.returncode
                raise ProcessFailed(f"{self.name} ended with code {code}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"{self.name} was not ready after {timeout_s} s: no line matches "
                    f"{pattern!r}\n{self.log_tail()}"
                )
            time.sleep(POLL_S)

    def kill(self, timeout_s: float = 10.0) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.send_signal(signal.SIGKILL)
        self.reap(timeout_s)

    def stop(self, timeout_s: float = 20.0) -> bool:
        """SIGTERM, wait up to `timeout_s`, then SIGKILL. Returns True when it ended by itself."""
        self.send_signal(signal.SIGTERM)
        try:
            self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self.reap(1.0)
        return True

    def reap(self, timeout_s: float) -> int:
        """Wait for the end, by force after `timeout_s`; close the pipes; return the exit code."""
        try:
            code = self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._keeper.pid, signal.SIGKILL)
            code = self._keeper.wait(timeout_s)
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return code
