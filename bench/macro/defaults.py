"""The defaults beside a grid of linger_ms and batch_size, from 10 records/s to as many as go.

The grid has what people set: no linger, Kafka's 5 ms, 1 and 20 around it; batches of Kafka's 16 kB,
of 64 kB and of 1 MB, which is as much as a broker takes, around the default's 256 KiB. Flat out 1
and 20 ms are left out, as batches fill before. Where none ever fills, the smallest size, tried
once, speaks for all.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

from bench.contests.contest import P99, RATE, Contest, Measure
from bench.fresh_process import Contender
from bench.point import Point
from bench.series import Series
from bench.workload import PACED, Workload

DEFAULTS = "defaults"
_LINGERS_MS = (None, 0, 1, 5, 20)
_BATCHES = (None, 16_384, 65_536, 1_000_000)
_LINGERS_ALONE = [*((linger_ms, None) for linger_ms in _LINGERS_MS), (0, 16_384)]
_FULL_GRID = list(itertools.product(_LINGERS_MS, _BATCHES))
_FULL_BATCHES = list(itertools.product((None, 0, 5), _BATCHES))
_SERVERS = {"discard": "our broker, which throws them away", "kafka": "Apache Kafka"}


def points() -> list[Point]:
    """Against our broker, and against Apache Kafka."""
    return [point for server in _SERVERS for point in _points(server)]


def _points(server: str) -> list[Point]:
    # A p99 of one producer's 10 records/s would take minutes; those of 20 do not meet.
    ten = Workload(PACED, 300, per_s=10, producers=20)
    thousand = Workload(PACED, 1_000, per_s=1_000)
    many = Workload(PACED, 100_000, per_s=100_000)
    return [
        _point(server, "flat_out", Workload("send", 3_000_000), RATE, _FULL_BATCHES),
        _point(server, "10_per_s", ten, P99, _LINGERS_ALONE),
        _point(server, "1000_per_s", thousand, P99, _LINGERS_ALONE),
        _point(server, "100000_per_s", many, P99, _FULL_GRID),
    ]


def _point(
    server: str,
    name: str,
    load: Workload,
    measure: Measure,
    grid: list[tuple[int | None, int | None]],
) -> Point:
    contest = Contest(DEFAULTS, measure)

    def figures(finals: Mapping[str, Series]) -> dict[str, float]:
        measures = (P99, RATE) if load.per_s else (RATE,)
        return {f"{each.name}_of_best": contest.rival(finals, each)[1] for each in measures}

    pace = f"{load.per_s:,} records/s" if load.per_s else "as many records as go"
    return Point(
        f"defaults.{server}.{name}",
        f"{pace} of 100 B to {_SERVERS[server]}: the defaults beside linger_ms and batch_size",
        server,
        [_contender(load, *cell) for cell in grid],
        figures,
        rounds=3,
        contest=contest,
    )


def _contender(load: Workload, linger_ms: int | None, batch_bytes: int | None) -> Contender:
    parts = []
    if linger_ms is not None:
        parts.append(f"linger {linger_ms} ms")
    if batch_bytes is not None:
        parts.append(f"batch {batch_bytes:,} B")
    return Contender(
        ", ".join(parts) or DEFAULTS,
        "fastprod_paced" if load.way == PACED else "fastprod_",
        dataclasses.replace(load, linger_ms=linger_ms, batch_bytes=batch_bytes),
    )
