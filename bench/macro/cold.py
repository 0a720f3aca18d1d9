"""The first record: from the call of the constructor to its acknowledgement in a fresh process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Point
from bench.series import Series
from bench.workload import COLD, Workload

_BARE = "prepared frames, bare socket"
_IDEMPOTENT = "confluent-kafka, idempotent"
_DEFAULTS = Workload(COLD, 1)
_NO_LINGER = Workload(COLD, 1, linger_ms=0)


def points() -> list[Point]:
    """Against the mock cluster, and against Apache Kafka."""
    return [_point("mock", "the mock cluster"), _point("kafka", "Apache Kafka")]


def _point(server: str, name: str) -> Point:
    return Point(
        f"cold.{server}",
        f"constructor to the first acknowledgement of 100 B by {name}, ours at all defaults;"
        " imports are done before, and the bare socket sends the same messages",
        server,
        [
            Contender(OURS, "fastprod_", _DEFAULTS),
            Contender(CONFLUENT, "confluent_", _NO_LINGER),
            Contender(_IDEMPOTENT, "confluent_", dataclasses.replace(_NO_LINGER, idempotence=True)),
            Contender(_BARE, "bare_socket", _DEFAULTS),
        ],
        _figures,
        rounds=15,
    )


def _figures(series: Mapping[str, Series]) -> dict[str, float]:
    ours, theirs, idempotent, bare = (
        series[label].latency_us(0.5) for label in (OURS, CONFLUENT, _IDEMPOTENT, _BARE)
    )
    return {
        "median_ratio": ours / theirs,
        "median_ratio_idempotent": ours / idempotent,
        "over_bare_socket_us": ours - bare,
        "cpu_us": series[OURS].cpu_us,
    }
