"""Bulk throughput while pure Python spins: in a thread of the same process, and in another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import Point
from bench.series import Series
from bench.workload import Workload

# Lists long enough that the 5 ms which a thread waits for the GIL beside a spinner, once a call,
# are little beside the call itself.
_BULK = 1_000_000
_LOAD = Workload(
    "bulk",
    4_000_000,
    linger_ms=5,
    batch_bytes=512_000,
    idempotence=False,
    bulk_records=_BULK,
)
_THREAD = "spinner in a thread"
_PROCESS = "spinner in another process"


def points() -> list[Point]:
    """send_many to the mock cluster."""
    return [
        Point(
            "spinner.mock",
            "send_many of 100 B values beside a spinner in pure Python",
            "mock",
            [
                Contender(_THREAD, "fastprod_", dataclasses.replace(_LOAD, spins=True)),
                Contender(_PROCESS, "fastprod_", _LOAD, beside_spinner=True),
                Contender("no spinner", "fastprod_", _LOAD),
            ],
            _figures,
        )
    ]


def _figures(series: Mapping[str, Series]) -> dict[str, float]:
    return {"rate_kept": series[_THREAD].rate_per_s / series[_PROCESS].rate_per_s}
