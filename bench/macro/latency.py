"""One record at a time: from the call of send to its acknowledgement in the caller's hands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Figures, Point
from bench.series import Series
from bench.workload import Workload

_BARE = "prepared frame, bare socket"
_DEFAULTS = Workload("latency", 5_000)
_FEWER = 1_000
_ROUNDS = 9
_FLOOD_PER_S = 500_000
# What differs from one record of 100 B at a time, back to back, by one thread.
_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "apart": ("0.5 ms apart", {"pause_us": 500, "record_count": 2_000}),
    "1kB": ("of 1 kB", {"values": "text-1000"}),
    "100kB": ("of 100 kB", {"values": "text-100000", "record_count": _FEWER}),
    "lz4": ("with lz4", {"values": "text-1000", "codec": "lz4"}),
    "dressed": ("with a key and three headers", {"dressed": True}),
    "acks1": ("with acks=1", {"acks": "1", "idempotence": False}),
}
_AMONG_OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "flush": ("by send and flush", {"flushes": True}),
    "threads": ("by each of 8 threads", {"waiters": 8, "record_count": 8_000}),
    "beside_flood": (f"beside {_FLOOD_PER_S:,} records/s", {"flood_per_s": _FLOOD_PER_S}),
}


def points() -> list[Point]:
    """Against the mock cluster, and against Apache Kafka, without and with TLS."""
    return [
        _point("mock", "the mock cluster"),
        *(_variant("mock", name, *what, _beside_bare, [_BARE]) for name, what in _VARIANTS.items()),
        *(_variant("mock", name, *what, _beside, []) for name, what in _AMONG_OTHERS.items()),
        _point("kafka", "Apache Kafka"),
        _variant("kafka", "apart", *_VARIANTS["apart"], _beside_bare, [_BARE]),
        _variant("kafka", "threads", *_AMONG_OTHERS["threads"], _beside, []),
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
            *_contenders(_DEFAULTS, [_BARE]),
            *([aiokafka] if has_aiokafka else []),
        ],
        _beside_bare,
        rounds=_ROUNDS,
    )


def _variant(
    server: str, name: str, what: str, differs: dict[str, Any], figures: Figures, others: list[str]
) -> Point:
    return Point(
        f"latency.{server}.{name}",
        f"one record at a time, {what}: ours at all other defaults, rivals at linger 0",
        server,
        _contenders(dataclasses.replace(_DEFAULTS, **differs), others),
        figures,
    )


def _contenders(load: Workload, others: list[str]) -> list[Contender]:
    no_linger = dataclasses.replace(load, linger_ms=0)
    return [
        Contender(OURS, "fastprod_", load),
        Contender(CONFLUENT, "confluent_", no_linger),
        *(Contender(label, "bare_socket", load) for label in others),
    ]


def _beside(series: Mapping[str, Series]) -> dict[str, float]:
    ours, theirs = series[OURS], series[CONFLUENT]
    return {
        "median_ratio": ours.latency_us(0.5) / theirs.latency_us(0.5),
        "p99_ratio": ours.latency_us(0.99) / theirs.latency_us(0.99),
        "rate_ratio": ours.rate_per_s / theirs.rate_per_s,
        "cpu_us": ours.cpu_us,
    }


def _beside_bare(series: Mapping[str, Series]) -> dict[str, float]:
    ours, bare = series[OURS], series[_BARE]
    return _beside(series) | {
        "over_bare_socket_us": ours.latency_us(0.5) - bare.latency_us(0.5),
        "of_bare_socket": ours.latency_us(0.5) / bare.latency_us(0.5),
        "p99_of_bare_socket": ours.latency_us(0.99) / bare.latency_us(0.99),
    }
