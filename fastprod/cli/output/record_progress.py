"""RecordProgress: how many records are done, on stderr."""

from __future__ import annotations

from collections.abc import Callable

import click
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fastprod.cli.output.progress_bar import ProgressBar


class RecordProgress(ProgressBar):
    """How far a run of records has come; use it in a `with`. One thread.

    Args:
        what: what is done with the records, such as "sent".
        total_count: how many there will be; None: not known.
        line_period_s: where there is no bar, how often a line is written, in seconds; 0: never.
        has_bar: whether there is a bar if stderr is a terminal.
    """

    def __init__(
        self,
        what: str,
        total_count: int | None,
        line_period_s: float = 0.0,
        *,
        has_bar: bool = True,
    ) -> None:
        time_column = TimeElapsedColumn() if total_count is None else TimeRemainingColumn()
        columns = (MofNCompleteColumn(), TextColumn("{task.fields[told]}"), time_column)
        super().__init__(what, columns, total_count, line_period_s, has_bar=has_bar)
        self._what = what
        self._total_count = total_count
        self._shown_count = 0

    def show(self, count_now: Callable[[], int]) -> None:
        """Show how many records are done, if it is time to; `count_now` is called only then."""
        since_s = self.take_turn()
        if not since_s:
            return
        count = count_now()
        if not self.update(count, f"{count / self.elapsed_s:,.0f}/s", self._total_count):
            rate = f"{(count - self._shown_count) / since_s:,.0f}/s"
            of = "" if self._total_count is None else f" of {self._total_count:,}"
            click.echo(f"{count:,}{of} records {self._what}, {rate} now", err=True)
        self._shown_count = count
