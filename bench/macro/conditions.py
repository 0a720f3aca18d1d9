"""What a producer keeps where its surroundings are bad, and what it uses where it has no work."""

from __future__ import annotations

from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import OURS, Point
from bench.series import Series
from bench.workload import IDLE, SPREAD, Workload

_ONE = "one"
_MANY = "many"
_BATCH_BYTES = 262_144
_SMALL_BATCH_BYTES = 65_536
_IN_FLIGHT = 5
_ROUND_TRIP_S = 0.020
_SLOW_S = 0.200
_ONE_NODE = Workload(SPREAD, 4_000_000, nodes=1, used_partitions=1)
_HUNDRED = Workload(SPREAD, 4_000_000, nodes=100, used_partitions=1)
# A window of the default's batches would be as much as the network in Python can take.
_DISTANT = Workload(SPREAD, 100_000, "text-1000", batch_bytes=_SMALL_BATCH_BYTES)
_TWO = Workload(SPREAD, 10_000_000, nodes=2, by_producer=True)
_THREE = Workload(SPREAD, 10_000_000, nodes=3, by_producer=True)


def points() -> list[Point]:
    """To our broker, which throws the records away; settings are the defaults."""
    return [
        Point(
            "conditions.discard.idle",
            "10 s without a record: CPU time and wake-ups of the whole process",
            "discard",
            [Contender(OURS, "fastprod_idle", Workload(IDLE, 1))],
            lambda series: {
                "cpu_percent": series[OURS].cpu_percent,
                "wake_ups_per_s": series[OURS].wake_ups_per_s,
            },
            rounds=3,
        ),
        Point(
            "conditions.hundred.idle_nodes",
            "100 B values to one of a hundred nodes that are connected, and with that one alone",
            "hundred",
            [
                Contender(_ONE, "fastprod_spread", _ONE_NODE),
                Contender(_MANY, "fastprod_spread", _HUNDRED),
            ],
            _kept_beside_idle_nodes,
        ),
        Point(
            "conditions.distant.one_partition",
            "1 kB values to one partition over 20 ms of round trip",
            "distant",
            [Contender(OURS, "fastprod_spread", _DISTANT)],
            lambda series: {"window_kept": series[OURS].mb_per_s * 1e6 / _window_per_s()},
            rounds=3,
        ),
        Point(
            "conditions.slowed.others",
            "100 B values without a key to two nodes, and to these and one that is 200 ms away",
            "slowed",
            [
                Contender("without it", "fastprod_spread", _TWO),
                Contender("with it", "fastprod_spread", _THREE),
            ],
            _kept_by_others,
        ),
    ]


def _window_per_s() -> float:
    """Bytes that may be under way at once, in every round trip."""
    return _IN_FLIGHT * _SMALL_BATCH_BYTES / _ROUND_TRIP_S


def _kept_beside_idle_nodes(series: Mapping[str, Series]) -> dict[str, float]:
    one, many = series[_ONE], series[_MANY]
    return {
        "rate_kept": many.rate_per_s / one.rate_per_s,
        "further_threads": many.thread_count - one.thread_count,
    }


def _kept_by_others(series: Mapping[str, Series]) -> dict[str, float]:
    """Until the last `send` has returned. The slow node's share is taken out as if it had had as
    much as can be under way to it."""
    slow_mb_per_s = _IN_FLIGHT * _BATCH_BYTES / _SLOW_S / 1e6
    others = series["with it"].mb_per_s - slow_mb_per_s
    return {"rate_kept": others / series["without it"].mb_per_s}
