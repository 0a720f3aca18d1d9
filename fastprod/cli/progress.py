"""RecordProgress: a bar on a terminal, a line now and then in a log, nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_BAR_PERIOD_S = 0.1


class RecordProgress:
    """How far a run of records has come, on stderr; use it in a `with`. One thread.

    Args:
        what: what is done with the records, such as "sent".
        total_count: how many there will be; None: not known.
        line_period_s: where stderr is no terminal, how often a line is written; 0: never.
    """

    def __init__(self, what: str, total_count: int | None, line_period_s: float = 0.0) -> None:
        self._what = what
        self._total_count = total_count
        self._line_period_s = line_period_s
        self._began_s = self._shown_s = time.monotonic()
        self._shown_count = 0
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn()),
                *(MofNCompleteColumn(), TextColumn("{task.fields[rate]}")),
                TimeElapsedColumn() if total_count is None else TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=5,
            )
            self._task = self._bar.add_task(what, total=total_count, rate="")

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

    def show(self, count_now: Callable[[], int]) -> None:
        """Say how many records are done by now, if it is time to; else cheap."""
        now_s = time.monotonic()
        since_s = now_s - self._shown_s
        period_s = self._line_period_s if self._bar is None else _BAR_PERIOD_S
        if since_s < period_s or not period_s:
            return
        count = count_now()
        if self._bar is not None:
            rate = f"{count / max(now_s - self._began_s, 1e-9):,.0f}/s"
            self._bar.update(self._task, completed=count, rate=rate)
        else:
            rate = f"{(count - self._shown_count) / since_s:,.0f}/s"
            of = "" if self._total_count is None else f" of {self._total_count:,}"
            click.echo(f"{count:,}{of} records {self._what}, {rate} now", err=True)
        self._shown_s, self._shown_count = now_s, count
