"""ProgressBar: shows how far a command is: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn

_BAR_PERIOD_S: Final = 0.1


class ProgressBar:
    """How far a command is, on stderr; use it in a `with`. One thread.

    Args:
        what: stands before the bar.
        columns: stand behind the bar; `{task.fields[told]}` is the text that `update` is given.
        total: what `update` counts up to; None: not known.
        line_period_s: where there is no bar, how often a line is written, in seconds; 0: never.
        has_bar: whether there is a bar if stderr is a terminal.
    """

    def __init__(
        self,
        what: str,
        columns: tuple[ProgressColumn, ...],
        total: int | None,
        line_period_s: float,
        *,
        has_bar: bool = True,
    ) -> None:
        self._began_s = self._shown_s = time.monotonic()
        self._period_s = line_period_s
        self._bar: Progress | None = None
        if has_bar and sys.stderr.isatty():
            self._period_s = _BAR_PERIOD_S
            self._bar = Progress(
                *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *columns),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=5,
            )
            self._task = self._bar.add_task(what, total=total, told="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def elapsed_s(self) -> float:
        """Time since the beginning, in seconds, more than 0."""
        return max(time.monotonic() - self._began_s, 1e-9)

    def take_turn(self) -> float:
        """Return the seconds since progress was last shown, if it is time to show it; else 0."""
        now_s = time.monotonic()
        since_s = now_s - self._shown_s
        if not self._period_s or since_s < self._period_s:
            return 0.0
        self._shown_s = now_s
        return since_s

    def update(self, done: int, told: str, total: int | None) -> bool:
        """Show this in the bar; False: there is none, a line is to be written."""
        if self._bar is None:
            return False
        self._bar.update(self._task, completed=done, total=total, told=told)
        return True
