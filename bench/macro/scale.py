"""Records a second where there is much of something: partitions, topics, sending threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bench.fresh_process import Contender
from bench.point import Point
from bench.series import Series
from bench.workload import SPREAD, Workload

_ONE = Workload(SPREAD, 1_000_000)
_MANY = 5_000
_ROUNDS = 3


def points() -> list[Point]:
    """To our broker, which throws the records away; settings are the defaults."""
    return [
        _point(
            "partitions",
            "100 B values to one partition after the other, and by random keys",
            {
                "in_turn": {"partitions": _MANY},
                "by_key": {"partitions": _MANY, "by_key": True},
            },
        ),
        _point(
            "topics", "100 B values to one topic after the other", {"in_turn": {"topics": _MANY}}
        ),
        _point(
            "threads",
            "100 B values from several threads",
            {"4": {"senders": 4}, "32": {"senders": 32}},
        ),
    ]


def _point(name: str, title: str, differs: Mapping[str, dict[str, Any]]) -> Point:
    """Figures: `kept` of each line, in parts of the rate with one of everything."""

    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        one = series["one"]
        found = {}
        for label in differs:
            found[f"{label}_kept"] = series[label].rate_per_s / one.rate_per_s
            found[f"{label}_cpu_ratio"] = series[label].cpu_us / one.cpu_us
        return found

    loads = {"one": _ONE} | {
        label: dataclasses.replace(_ONE, **each) for label, each in differs.items()
    }
    return Point(
        f"scale.discard.{name}",
        title,
        "discard",
        [Contender(label, "fastprod_spread", load) for label, load in loads.items()],
        figures,
        rounds=_ROUNDS,
    )
