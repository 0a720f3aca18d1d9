"""What our own broker takes in: checked and thrown away, kept in memory, written to files."""

from __future__ import annotations

from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Point
from bench.series import Series
from bench.workload import Workload

_BULK = 100_000
_LARGE = Workload("bulk", 2_000_000, values="text-1000", bulk_records=_BULK)
_SMALL = Workload("send", 8_000_000, linger_ms=5, batch_bytes=512_000, idempotence=False)
_TOGETHER = "confluent-kafka and fastprod at once"


def points() -> list[Point]:
    """Each kind of broker is a server of its own; batches are validated in full."""
    return [
        Point(
            "broker.discard.bulk",
            "1 kB values in bulk, checked and thrown away",
            "discard",
            [Contender(OURS, "fastprod_", _LARGE)],
            _rates,
        ),
        Point(
            "broker.discard.together",
            "100 B values from two clients at once, checked and thrown away",
            "discard",
            [Contender(_TOGETHER, "together_", _SMALL)],
            _rates,
        ),
        Point(
            "broker.memory.100B",
            "100 B values, kept in memory",
            "memory",
            [
                Contender(OURS, "fastprod_", _SMALL.with_count(4_000_000)),
                Contender(CONFLUENT, "confluent_", _SMALL.with_count(2_000_000)),
            ],
            _rates,
        ),
        Point(
            "broker.disk.bulk",
            "1 kB values in bulk, written to segment files",
            "disk",
            [Contender(OURS, "fastprod_", _LARGE)],
            _rates,
        ),
    ]


def _rates(series: Mapping[str, Series]) -> dict[str, float]:
    first = next(iter(series.values()))
    return {"mb_per_s": first.mb_per_s, "records_per_s": first.rate_per_s}
