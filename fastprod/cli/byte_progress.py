"""ByteProgress: how much of the input is loaded, on stderr: a bar, lines, or JSON."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import Final, Self

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

_LINE_PERIOD_S: Final = 5.0
_JSON_PERIOD_S: Final = 0.5


class ByteProgress:
    """How far a load is; use it in a `with`. One thread.

    Args:
        kind: "auto": a bar on a terminal, a line every 5 s elsewhere; "json": a line twice a
            second; "none".
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._began_s = self._shown_s = time.monotonic()
        self._bar: Progress | None = None
        if kind == "auto" and sys.stderr.isatty():
            self._bar = Progress(
                *(SpinnerColumn(), TextColumn("loading"), BarColumn(), DownloadColumn()),
                *(TextColumn("{task.fields[told]}"), TimeRemainingColumn()),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=5,
            )
            self._task = self._bar.add_task("loading", total=None, told="")

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

    def show(
        self,
        *,
        done_bytes: int,
        total_bytes: int,
        rows: int,
        sent_bytes: int,
        tasks: tuple[int, int] = (0, 0),
        retries: int = 0,
    ) -> None:
        """Say how far it is, if it is time to.

        Args:
            done_bytes: of the input.
            total_bytes: likewise; 0: not known.
            rows: acknowledged, as far as it is known.
            sent_bytes: of their keys and values.
            tasks: ended, and all; (0, 0): there are none.
            retries: records sent again.
        """
        now_s = time.monotonic()
        periods = {"json": _JSON_PERIOD_S, "auto": _LINE_PERIOD_S if self._bar is None else 0.1}
        if self._kind == "none" or now_s - self._shown_s < periods[self._kind]:
            return
        self._shown_s = now_s
        elapsed_s = now_s - self._began_s
        told = f"{rows:,} rows, {sent_bytes / elapsed_s / 1e6:,.1f} MB/s"
        if self._bar is not None:
            total = total_bytes or None
            self._bar.update(self._task, completed=done_bytes, total=total, told=told)
            return
        eta_s = seconds_left(done_bytes, total_bytes, elapsed_s)
        if self._kind == "json":
            state = {
                "elapsed_s": round(elapsed_s, 1),
                "input_bytes": done_bytes,
                "input_bytes_total": total_bytes,
                "rows": rows,
                "bytes": sent_bytes,
                "tasks": tasks[0],
                "tasks_total": tasks[1],
                "retries": retries,
                "eta_s": None if eta_s is None else round(eta_s, 1),
            }
            click.echo(json.dumps(state), err=True)
            return
        share = ""
        if total_bytes:
            share = f"{done_bytes / total_bytes:.0%} of {total_bytes / 1e6:,.1f} MB, "
        of_tasks = f"task {tasks[0]:,} of {tasks[1]:,}, " * bool(tasks[1])
        left = "" if eta_s is None else f", {eta_s:,.0f} s left"
        click.echo(f"{share}{of_tasks}{told}{left}", err=True)


def seconds_left(done_bytes: int, total_bytes: int, elapsed_s: float) -> float | None:
    """How long the rest takes, if it goes on as it went; None: nobody knows."""
    if not done_bytes or not total_bytes:
        return None
    return elapsed_s * max(total_bytes - done_bytes, 0) / done_bytes
