"""Records awaited in an event loop: what it costs beside a blocking call, and with many tasks."""

from __future__ import annotations

from collections.abc import Mapping

from bench.awaiting import TASKS
from bench.fresh_process import Contender
from bench.point import OURS, Point
from bench.series import Series
from bench.workload import TRICKLE, Workload

_BLOCKING = "fastprod, blocking"
_UVLOOP = "fastprod on uvloop"
_AIOKAFKA = "aiokafka"
_CONFLUENT = "confluent-kafka AIOProducer"
_BARE = "prepared frame, bare socket"
_ONE = Workload("latency", 5_000)
_TRICKLE = Workload(TRICKLE, 15)


def points() -> list[Point]:
    """One record at a time, five a second, and 10,000 tasks that each await theirs."""
    return [
        Point(
            "awaiting.mock.one",
            "one 100 B record at a time to the mock cluster, awaited; all defaults",
            "mock",
            [
                Contender(OURS, "fastprod_aio", _ONE),
                Contender(_UVLOOP, "fastprod_uvloop", _ONE),
                Contender(_BLOCKING, "fastprod_", _ONE),
            ],
            _of_blocking,
            rounds=9,
        ),
        Point(
            "awaiting.mock.trickle",
            "5 records a second to the mock cluster, awaited; all defaults",
            "mock",
            [
                Contender(OURS, "fastprod_aio", _TRICKLE),
                Contender(_UVLOOP, "fastprod_uvloop", _TRICKLE),
                Contender(_BARE, "bare_socket", _TRICKLE),
            ],
            _behind_answer,
            rounds=3,
        ),
        Point(
            "awaiting.mock.tasks",
            "10,000 tasks to the mock cluster, each awaits its records; the latencies are those of"
            " a heartbeat of the loop",
            "mock",
            [
                Contender(OURS, "fastprod_aio", Workload(TASKS, 200_000)),
                Contender(_UVLOOP, "fastprod_uvloop", Workload(TASKS, 200_000)),
                Contender(_AIOKAFKA, "aiokafka_", Workload(TASKS, 20_000, linger_ms=5)),
                Contender(_CONFLUENT, "confluent_aio", Workload(TASKS, 20_000)),
            ],
            _of_rivals,
            rounds=3,
        ),
    ]


def _of_blocking(series: Mapping[str, Series]) -> dict[str, float]:
    blocking_us = series[_BLOCKING].latency_us(0.5)
    return {
        "median_of_blocking": series[OURS].latency_us(0.5) / blocking_us,
        "uvloop_median_of_blocking": series[_UVLOOP].latency_us(0.5) / blocking_us,
    }


def _behind_answer(series: Mapping[str, Series]) -> dict[str, float]:
    """How long behind its answer a record's task goes on, at worst: the longest beside the longest
    of a bare socket that sleeps as long, which has what the machine and the server take at times.
    """
    answer_us = series[_BARE].latency_us(1.0)
    return {
        "longest_behind_answer_ms": (series[OURS].latency_us(1.0) - answer_us) / 1000,
        "uvloop_longest_behind_answer_ms": (series[_UVLOOP].latency_us(1.0) - answer_us) / 1000,
    }


def _of_rivals(series: Mapping[str, Series]) -> dict[str, float]:
    ours, uvloop = series[OURS], series[_UVLOOP]
    return {
        "rate_of_aiokafka": ours.rate_per_s / series[_AIOKAFKA].rate_per_s,
        "rate_of_confluent": ours.rate_per_s / series[_CONFLUENT].rate_per_s,
        "heartbeat_p99_ms": ours.latency_us(0.99) / 1000,
        "uvloop_rate_kept": uvloop.rate_per_s / ours.rate_per_s,
        "uvloop_heartbeat_p99_ms": uvloop.latency_us(0.99) / 1000,
        "cpu_us": ours.cpu_us,
    }
