"""TaskReport: what one task wrote; Spark takes it to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from fastprod.records import OffsetRange


class OffsetSpan(NamedTuple):
    """First and last offset that a task wrote in a partition; others may have written between."""

    first: int
    last: int


Offsets = dict[str, dict[int, OffsetSpan]]
"""Topic to partition to span."""


@dataclass
class TaskReport(WriterCommitMessage):
    """What a task wrote.

    Attributes:
        spark_partition: the task's.
        attempt: 0 for the first.
        rows: acknowledged records.
        bytes: of their keys and values.
        offsets: their offsets; unknown ones (acks=0) are left out.
        retried_rows: records that were sent again.
        throttle_ms: how long brokers asked this worker to wait meanwhile.
        sent_bytes: on the wire, requests and compression included.
        seconds: from the first row to the last acknowledgement.
        began_unix_s: the first row, by the worker's clock; 0.0 if there was none.
        worker_pid: the process.
        client_id: of the producer that was used; "" if there was no row.
    """

    spark_partition: int
    attempt: int
    rows: int = 0
    bytes: int = 0
    offsets: Offsets = field(default_factory=dict)
    retried_rows: int = 0
    throttle_ms: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0
    began_unix_s: float = 0.0
    worker_pid: int = 0
    client_id: str = ""

    def add_ranges(self, ranges: Iterable[OffsetRange]) -> None:
        """Add the offsets of one bulk."""
        for each in ranges:
            if each.first_offset >= 0:
                last = each.first_offset + each.record_count - 1
                spans = self.offsets.setdefault(each.topic, {})
                _widen(spans, each.partition, OffsetSpan(each.first_offset, last))


def summary(reports: Iterable[TaskReport | None]) -> dict[str, Any]:
    """The sums over all tasks of a commit, and each task's own numbers, for JSON.

    Args:
        reports: None for a task that failed.
    """
    known = [report for report in reports if report is not None]
    offsets: Offsets = {}
    for report in known:
        for topic, spans in report.offsets.items():
            for partition, span in spans.items():
                _widen(offsets.setdefault(topic, {}), partition, span)
    return {
        "rows": sum(report.rows for report in known),
        "bytes": sum(report.bytes for report in known),
        "sent_bytes": sum(report.sent_bytes for report in known),
        "retried_rows": sum(report.retried_rows for report in known),
        "throttle_ms": sum(report.throttle_ms for report in known),
        "seconds": _seconds(known),
        "offsets": _plain(offsets),
        "tasks": [{**asdict(report), "offsets": _plain(report.offsets)} for report in known],
    }


def _seconds(reports: Iterable[TaskReport]) -> float:
    """Time from the first row of all tasks to the last acknowledgement, as some run later."""
    times = [(each.began_unix_s, each.seconds) for each in reports if each.began_unix_s]
    if not times:
        return 0.0
    return max(began + took for began, took in times) - min(times)[0]


def _widen(spans: dict[int, OffsetSpan], partition: int, span: OffsetSpan) -> None:
    had = spans.get(partition, span)
    spans[partition] = OffsetSpan(min(had.first, span.first), max(had.last, span.last))


def _plain(offsets: Mapping[str, Mapping[int, OffsetSpan]]) -> dict[str, dict[str, list[int]]]:
    return {
        topic: {str(partition): list(spans[partition]) for partition in sorted(spans)}
        for topic, spans in sorted(offsets.items())
    }
