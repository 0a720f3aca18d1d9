"""Contestant: the process of one side, which sends when it is told to."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from types import TracebackType
from typing import Self

from bench.cliffs.side import Side, WrongResult

_TURN_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 10.0


class Contestant(contextlib.AbstractContextManager["Contestant"]):
    """It is ready when it is made, and its process ends with the `with`.

    Args:
        side: whose fastprod sends.
        way: the name of a way.
        bootstrap_servers: where to.

    Raises:
        WrongResult: the process failed, or was not ready in time.
    """

    def __init__(self, side: Side, way: str, bootstrap_servers: str) -> None:
        self._name = f"{way}, {side.label}"
        self._process = subprocess.Popen(
            side.command("bench.turns.client", bootstrap_servers, way),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=side.environment(),
        )
        try:
            self._answer()
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def turn(self) -> tuple[float, float]:
        """Send the records of one turn; return CPU and wall time, microseconds a record.

        Raises:
            WrongResult: the process failed, or was not done in time.

        Blocks: until all are acknowledged, at most _TURN_TIMEOUT_S.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and has no answer
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        cpu, wall = self._answer().split()
        return float(cpu), float(wall)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        watchdog = threading.Timer(_TURN_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise WrongResult(
                f"{self._name}: the client failed, or had no answer in {_TURN_TIMEOUT_S:g} s"
            )
        return line

    def _end(self) -> None:
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=_END_TIMEOUT_S)
        self._process.kill()
        self._process.wait()
