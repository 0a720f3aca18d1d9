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
    """Against the mock cluster, and against Apache Kafka, without and with TLS."""
    return [
        _point("mock", "the mock cluster"),
        _point("kafka", "Apache Kafka"),
        _point("kafka_tls", "Apache Kafka over TLS", has_aiokafka=False),
        _point("discard_tls", "our broker over TLS", has_aiokafka=False),
    ]


def _point(server: str, name: str, has_aiokafka: bool = True) -> Point:
    aiokafka = Contender("aiokafka", "aiokafka_", Workload("latency", 2_000, linger_ms=0))
    return Point(
        f"latency.{server}",
        f"one 100 B record at a time to {name}: ours at all defaults, rivals at linger 0",
        server,
        [
            Contender(OURS, "fastprod_", _DEFAULTS),
            Contender(CONFLUENT, "confluent_", _NO_LINGER),
            *([aiokafka] if has_aiokafka else []),
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
