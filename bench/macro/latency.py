"""One record at a time: from the call of send to its acknowledgement in the caller's hands."""

from __future__ import annotations

from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Point
from bench.series import Series
from bench.workload import Workload

_BARE = "prepared frame, bare socket"
_DEFAULTS = Workload("latency", 5_000)
_NO_LINGER = Workload("latency", 5_000, linger_ms=0)


def points() -> list[Point]:
    """Against the mock cluster, and against Apache Kafka."""
    return [_point("mock", "the mock cluster"), _point("kafka", "Apache Kafka")]


def _point(server: str, name: str) -> Point:
    return Point(
        f"latency.{server}",
        f"one 100 B record at a time to {name}: ours at all defaults, rivals at linger 0",
        server,
        [
            Contender(OURS, "fastprod_", _DEFAULTS),
            Contender(CONFLUENT, "confluent_", _NO_LINGER),
            Contender("aiokafka", "aiokafka_", Workload("latency", 2_000, linger_ms=0)),
            Contender(_BARE, "bare_socket", _DEFAULTS),
        ],
        _figures,
        rounds=9,
    )


def _figures(series: Mapping[str, Series]) -> dict[str, float]:
    ours, theirs, bare = series[OURS], series[CONFLUENT], series[_BARE]
    return {
        "median_ratio": ours.latency_us(0.5) / theirs.latency_us(0.5),
        "p99_ratio": ours.latency_us(0.99) / theirs.latency_us(0.99),
        "over_bare_socket_us": ours.latency_us(0.5) - bare.latency_us(0.5),
        "cpu_us": ours.cpu_us,
    }
