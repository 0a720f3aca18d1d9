"""Pictures of what bench/run measured: SVG files of each point."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pygal  # type: ignore[import-untyped]

from bench.contests import grid
from bench.contests.contest import Measure
from bench.point import Point
from bench.series import Series

# It looks for maps as plug-ins in every import of the process, in a way that Python gave up.
sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != pygal.__name__]

_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
_STYLE = pygal.style.CleanStyle
_BARS: Mapping[str, tuple[str, Callable[[Series], float]]] = {
    "rate": ("delivered records/s", lambda each: each.rate_per_s),
    "cpu": ("CPU of the client, us a record", lambda each: each.cpu_us),
    "memory": ("largest resident memory, MB", lambda each: each.peak_mb),
}


def draw(point: Point, series: Mapping[str, Series], folder: Path) -> list[Path]:
    """Draw a point's contenders beside each other.

    Args:
        point: what was measured.
        series: by label, as `alternate` returns it.
        folder: where the files go; it is made. Those of the same point are replaced.

    Returns: the files: POINT.latency.svg, or POINT.rate.svg, POINT.cpu.svg and POINT.memory.svg;
        of a contest POINT.grid.svg.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if point.contest is not None:
        charts = {"grid": _grid(point, series, point.contest.measure)}
    elif all(each.has_latencies for each in series.values()):
        charts = {"latency": _distribution(point, series)}
    else:
        charts = {name: _bars(point, series, *what) for name, what in _BARS.items()}
    files = []
    for name, chart in charts.items():
        files.append(folder / f"{point.name}.{name}.svg")
        chart.render_to_file(str(files[-1]))
    return files


def _bars(
    point: Point, series: Mapping[str, Series], unit: str, value: Callable[[Series], float]
) -> pygal.Graph:
    chart = pygal.HorizontalBar(**_settings(f"{point.name}: {unit}"))
    for label, each in series.items():
        # A client whose CPU cannot be told has no bar.
        chart.add(label, [value(each) if value(each) == value(each) else None])
    return chart


def _distribution(point: Point, series: Mapping[str, Series]) -> pygal.Graph:
    """Each contender's latency by the share of records that had less."""
    chart = pygal.Line(logarithmic=True, **_settings(f"{point.name}: us, send to acknowledgement"))
    chart.x_labels = [f"{share:.1%}".replace(".0%", "%") for share in _SHARES]
    for label, each in series.items():
        chart.add(label, [each.latency_us(share) for share in _SHARES])
    return chart


def _grid(point: Point, series: Mapping[str, Series], measure: Measure) -> pygal.Graph:
    """A group of bars for each linger_ms, a bar in it for each batch_size."""
    chart = pygal.Bar(logarithmic=measure.is_cost, **_settings(f"{point.name}: {measure.title}"))
    cells = grid.by_setting(series)
    lingers = list(dict.fromkeys(linger for linger, _ in cells))
    chart.x_labels = [f"linger_ms {grid.setting_text(each)}" for each in lingers]
    for batch in dict.fromkeys(batch for _, batch in cells):
        found = [cells.get((linger, batch)) for linger in lingers]
        values = [each.median(measure.number) if each else None for each in found]
        chart.add(f"batch_size {grid.setting_text(batch)}", values)
    return chart


def _settings(title: str) -> dict[str, object]:
    """Without the script of pygal that a browser would load from elsewhere."""
    return {
        "title": title,
        "style": _STYLE,
        "js": (),
        "legend_at_bottom": True,
        "print_values": True,
        "value_formatter": lambda value: f"{value:,.3g}" if value < 1000 else f"{value:,.0f}",
        "width": 900,
        "height": 420,
        "margin_right": 60,
    }
