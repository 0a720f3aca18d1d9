"""The tables that bench/run prints, and its JSON."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiokafka  # type: ignore[import-untyped]
import confluent_kafka
import kafka

from bench.budget import Verdict
from bench.point import Point
from bench.series import Series
from fastprod._core.bytes import crc32c
from fastprod.version import VERSION

_WIDTH = 30


def machine() -> dict[str, str]:
    """What the figures depend on, by name."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
        "python": platform.python_version(),
        "fastprod": f"{VERSION}, CRC-32C by {crc32c.backend()}",
        "confluent-kafka": f"{confluent_kafka.version()}, librdkafka "
        f"{confluent_kafka.libversion()[0]}",
        "aiokafka": aiokafka.__version__,
        "kafka-python": kafka.__version__,
        "load at the start": Path("/proc/loadavg").read_text().strip(),
    }


def table(point: Point, series: Mapping[str, Series], server: str) -> str:
    """One point: its settings, a line for each contender."""
    rounds = max(len(each.runs) for each in series.values())
    lines = [f"{point.name}: {point.title}", f"  server: {server}; rounds: {rounds}"]
    loads: dict[str, list[str]] = {}
    for each in series.values():
        loads.setdefault(each.contender.workload.settings_text(), []).append(each.contender.label)
    for text, labels in loads.items():
        lines.append(f"  {text}" + (f" ({', '.join(labels)})" if len(loads) > 1 else ""))
    has_latencies = any(each.has_latencies for each in series.values())
    lines.append(_latency_head() if has_latencies else _rate_head())
    for each in series.values():
        row = _latency_row(each) if has_latencies else _rate_row(each)
        lines.append(row + _foreign(each))
    return "\n".join(lines)


def _rate_head() -> str:
    return (
        f"  {'':{_WIDTH}} {'records/s':>11} {'(least..most)':>23} {'MB/s':>7} {'CPU us':>7} "
        f"{'peak MB':>8}  others"
    )


def _rate_row(each: Series) -> str:
    spread = f"({min(each.rates_per_s):,.0f}..{max(each.rates_per_s):,.0f})"
    return (
        f"  {each.contender.label:{_WIDTH}} {each.rate_per_s:11,.0f} {spread:>23} "
        f"{each.mb_per_s:7,.0f} {_number(each.cpu_us, 3):>7} {each.peak_mb:8,.0f}"
    )


def _latency_head() -> str:
    return (
        f"  {'us':{_WIDTH}} {'median':>8} {'p99':>8} {'p99.9':>8} {'CPU us':>7} "
        f"{'peak MB':>8}  others"
    )


def _latency_row(each: Series) -> str:
    return (
        f"  {each.contender.label:{_WIDTH}} {each.latency_us(0.5):8.1f} "
        f"{each.latency_us(0.99):8.1f} {each.latency_us(0.999):8.1f} "
        f"{_number(each.cpu_us, 1):>7} {each.peak_mb:8,.0f}"
    )


def _number(value: float, digits: int) -> str:
    return "-" if value != value else f"{value:.{digits}f}"


def _foreign(each: Series) -> str:
    mark = f"  DISTURBED {each.disturbed_count}x" if each.disturbed_count else ""
    return f"  {each.foreign_share:5.0%}{mark}"


def figure_lines(figures: Mapping[str, float]) -> str:
    return "\n".join(f"    {name} = {value:.3g}" for name, value in figures.items())


def verdict_lines(verdicts: Iterable[Verdict]) -> str:
    """Each bound with its figure; those that are missed are marked."""
    lines = []
    for each in verdicts:
        word = "ok    " if each.is_kept else "MISSED"
        lines.append(
            f"  {word} {each.bound.kind:6} {each.bound.figure} = {_number(each.value, 3)}, "
            f"{each.bound}"
        )
    return "\n".join(lines)


def as_json(series: Mapping[str, Series]) -> list[dict[str, Any]]:
    """All runs of a point; of latencies only the quantiles."""
    rows = []
    for each in series.values():
        runs = []
        for run in each.runs:
            outcome = dataclasses.asdict(run.outcome)
            del outcome["latencies_us"]
            runs.append({**outcome, "foreign_share": run.foreign_share})
        row: dict[str, Any] = {
            "label": each.contender.label,
            "settings": each.contender.workload.settings_text(),
            "runs": runs,
        }
        if each.has_latencies:
            row["latency_us"] = {name: each.latency_us(float(name)) for name in ("0.5", "0.99")}
        rows.append(row)
    return rows
