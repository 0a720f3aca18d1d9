"""ByteProgress: how much of the input is loaded, on stderr: a bar, lines, or JSON."""

from __future__ import annotations

import json
from typing import Final

import click
from rich.progress import DownloadColumn, TextColumn, TimeRemainingColumn

from fastprod.cli.output.progress_bar import ProgressBar

# Seconds between two lines, by the kind of progress; 0: none.
_LINE_PERIODS_S: Final = {"auto": 5.0, "json": 0.5, "none": 0.0}


class ByteProgress(ProgressBar):
    """How far a load is; use it in a `with`. One thread.

    Args:
        kind: "auto": a bar on a terminal, a line every 5 s elsewhere; "json": a line twice a
            second; "none".
    """

    def __init__(self, kind: str) -> None:
        columns = (DownloadColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn())
        super().__init__("loading", columns, None, _LINE_PERIODS_S[kind], has_bar=kind == "auto")
        self._kind = kind

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
        """Show how far it is, if it is time to.

        Args:
            done_bytes: of the input.
            total_bytes: of the whole input; 0: not known.
            rows: acknowledged, as far as it is known.
            sent_bytes: of their keys and values.
            tasks: ended, and all; (0, 0): there are none.
            retries: records sent again.
        """
        if not self.take_turn():
            return
        elapsed_s = self.elapsed_s
        told = f"{rows:,} rows, {sent_bytes / elapsed_s / 1e6:,.1f} MB/s"
        if self.update(done_bytes, told, total_bytes or None):
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
    """How long the rest takes at the same rate, in seconds; None: not known."""
    if not done_bytes or not total_bytes:
        return None
    return elapsed_s * max(total_bytes - done_bytes, 0) / done_bytes
