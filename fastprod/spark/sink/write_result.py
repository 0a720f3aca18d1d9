"""WriteResult: what a write put into Kafka, summed over its tasks, batches and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

Offsets = dict[str, dict[int, tuple[int, int]]]
"""Topic to partition to first and last offset; others may have written between."""


@dataclass(frozen=True)
class WriteResult:
    """What was written.

    Attributes:
        rows: acknowledged records.
        bytes: of their keys and values.
        offsets: first and last by topic and partition; unknown offsets (acks=0) are left out.
        retries: records that were sent again.
        seconds: from the first row to the last acknowledgement, for all together.
        sent_bytes: on the wire, requests and compression included.
        throttle_ms: what brokers asked to wait, added up over the workers.
        batches: commits: 1 for a DataFrame, micro-batches of a stream.
    """

    rows: int = 0
    bytes: int = 0
    offsets: Offsets = field(default_factory=dict)
    retries: int = 0
    seconds: float = 0.0
    sent_bytes: int = 0
    throttle_ms: int = 0
    batches: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the same as a dict that `json.dumps` takes; partitions are str there."""
        offsets = {
            topic: {str(partition): list(spans[partition]) for partition in sorted(spans)}
            for topic, spans in sorted(self.offsets.items())
        }
        return {**self.__dict__, "offsets": offsets, "seconds": round(self.seconds, 3)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the WriteResult of a dict that `as_json` made, given as `found`."""
        return cls(**{**found, "offsets": _merged([found["offsets"]])})

    def __add__(self, other: WriteResult) -> WriteResult:
        """Both together."""
        return WriteResult(
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            offsets=_merged([self.offsets, other.offsets]),
            retries=self.retries + other.retries,
            seconds=self.seconds + other.seconds,
            sent_bytes=self.sent_bytes + other.sent_bytes,
            throttle_ms=self.throttle_ms + other.throttle_ms,
            batches=self.batches + other.batches,
        )


def added_up(summaries: Iterable[Mapping[str, Any]]) -> WriteResult:
    """Add up what commits reported, as `fastprod.spark.sink.task_report.summary` makes it."""
    known = list(summaries)
    return WriteResult(
        rows=sum(each["rows"] for each in known),
        bytes=sum(each["bytes"] for each in known),
        offsets=_merged([each["offsets"] for each in known]),
        retries=sum(each["retried_rows"] for each in known),
        seconds=sum(each["seconds"] for each in known),
        sent_bytes=sum(each["sent_bytes"] for each in known),
        throttle_ms=sum(each["throttle_ms"] for each in known),
        batches=len(known),
    )


def _merged(
    several: Iterable[Mapping[str, Mapping[str, Sequence[int]] | Mapping[int, tuple[int, int]]]],
) -> Offsets:
    """One span a partition; JSON has its number as text."""
    merged: Offsets = {}
    for offsets in several:
        for topic, spans in offsets.items():
            found = merged.setdefault(topic, {})
            for partition, (first, last) in spans.items():
                had = found.get(int(partition), (first, last))
                found[int(partition)] = (min(int(first), had[0]), max(int(last), had[1]))
    return merged
