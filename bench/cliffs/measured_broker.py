"""MeasuredBroker: a side's broker in a process of its own, and what starting and stopping cost."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.cliffs.broker_main import disk_read_bytes
from bench.cliffs.side import Figures, Side, WrongResult
from bench.cliffs.stopwatch import process_cpu_s

_BOUND_S = 300.0


class MeasuredBroker:
    """Runs while the `with` lasts, unless it is stopped before.

    Args:
        side: whose broker.
        log: file for what it says on standard error.
        options: of `fastprod broker`.

    Raises:
        WrongResult: it does not start, or not in time.

    `address` is where it listens; `start_bytes` what it had to fetch from the disk before.
    """

    def __init__(self, side: Side, log: Path, *options: str) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                side.command("bench.cliffs.broker_main", *options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=side.environment(),
            )
        with _Bound(self._process):
            begin = int(self._line_with(r"BEGIN (\d+)"))
            self.address = self._line_with(r"listening on ([^;\s]+);")
        self.start_bytes = disk_read_bytes(self.pid) - begin

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> Figures:
        """SIGTERM, and wait for the end; what that cost, and all fsyncs of the process's life.

        Raises:
            WrongResult: it did not end by itself.
        """
        cpu_s, started_s = process_cpu_s(self.pid), time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        with _Bound(self._process):
            fsyncs, end_cpu_s = self._line_with(r"END (.+)").split()
            self._process.wait()
        if self._process.returncode != 0:
            raise WrongResult(f"the broker ended with {self._process.returncode}")
        return {
            "cpu_s": float(end_cpu_s) - cpu_s,
            "wall_s": time.perf_counter() - started_s,
            "fsyncs": int(fsyncs),
        }

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _line_with(self, pattern: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(pattern, line):
                return found[1]
        self.kill()
        raise WrongResult(f"the broker ended, no line has {pattern}:\n{self._log.read_text()}")


class _Bound:
    """Ends a process that takes more than _BOUND_S within the `with`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._timer = threading.Timer(_BOUND_S, process.kill)

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
