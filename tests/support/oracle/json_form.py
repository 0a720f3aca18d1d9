"""How Spark's to_json writes dates and times, as the engine is told."""

from __future__ import annotations

from fastprod._core.json.layout import JsonFormat
from fastprod._core.json.times import TimePattern, ZoneOffsets

DATE = [("y", 4), ("-", 0), ("M", 2), ("-", 0), ("d", 2)]
TIME = [("T", 0), ("H", 2), (":", 0), ("m", 2), (":", 0), ("s", 2), (".", 0), ("S", 3)]


def json_form(ignores_nulls: bool = True, offset_s: int = 0) -> JsonFormat:
    """Every zone has the same offset here."""
    return JsonFormat(
        date_pattern=TimePattern(DATE),
        timestamp_pattern=TimePattern([*DATE, *TIME, ("X", 5)]),
        timestamp_ntz_pattern=TimePattern([*DATE, *TIME]),
        zone_of=lambda name: ZoneOffsets([], [offset_s]),
        ignores_nulls=ignores_nulls,
    )
