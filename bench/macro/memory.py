"""Peak memory while ten million records go through with their futures dropped."""

from __future__ import annotations

from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Point
from bench.series import Series
from bench.workload import Workload

_BUFFER_BYTES = 33_554_432
_LOAD = Workload(
    "send",
    10_000_000,
    linger_ms=5,
    batch_bytes=512_000,
    idempotence=False,
    buffer_bytes=_BUFFER_BYTES,
)


def points() -> list[Point]:
    """Against the mock cluster, and against Apache Kafka, which lets the buffer fill."""
    return [
        Point(
            f"memory.{server}",
            "peak memory, futures dropped (confluent-kafka with its queue of 1,000,000)",
            server,
            [
                Contender(OURS, "fastprod_", _LOAD),
                Contender(CONFLUENT, "confluent_", _LOAD),
            ],
            _figures,
            rounds=1,
        )
        for server in ("mock", "kafka")
    ]


def _figures(series: Mapping[str, Series]) -> dict[str, float]:
    ours, theirs = series[OURS], series[CONFLUENT]
    return {
        "above_buffer_mb": ours.peak_mb - ours.baseline_mb - _BUFFER_BYTES / 1e6,
        "peak_mb": ours.peak_mb,
        "peak_ratio": ours.peak_mb / theirs.peak_mb,
    }
