"""Dates and times as text."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fastprod._core.json.times import TimePattern, ZoneOffsets
from fastprod._core.testing.json_doors import time_text_for_test

ISO = [
    *[("y", 4), ("-", 0), ("M", 2), ("-", 0), ("d", 2), ("T", 0), ("H", 2), (":", 0), ("m", 2)],
    *[(":", 0), ("s", 2), (".", 0), ("S", 6), ("x", 3)],
]


def text(parts: list[tuple[str, int]], time_s: int, offset_s: int = 0, nano: int = 0) -> str:
    """A time in a zone with one offset."""
    return time_text_for_test(TimePattern(parts), ZoneOffsets([], [offset_s]), time_s, nano)


def test_times_of_pythons_calendar_are_pythons() -> None:
    chance = random.Random(6)
    for _ in range(20_000):
        time_s = chance.randrange(-62_135_500_000, 253_402_200_000)
        minutes = chance.randrange(-18 * 60, 18 * 60)
        micro = chance.randrange(1_000_000)
        zone = timezone(timedelta(minutes=minutes))
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0, time_s, micro)).astimezone(zone)
        wanted = local.isoformat(timespec="microseconds")
        assert text(ISO, time_s, minutes * 60, micro * 1_000) == wanted


@pytest.mark.parametrize(
    ("width", "year", "wanted"),
    [
        (1, 5, "5"),
        (2, 1905, "05"),
        (3, 5, "005"),
        (4, 5, "0005"),
        (4, 12345, "+12345"),
        (5, 12345, "12345"),
        (4, -44, "-0044"),
        (2, -44, "44"),
        (4, 0, "0000"),
        (9, 123456, "000123456"),
        (1, 290_000, "290000"),
    ],
)
def test_years_are_written_as_java_writes_them(width: int, year: int, wanted: str) -> None:
    days = (year // 400) * 146_097 + (datetime(year % 400 + 2000, 7, 1) - datetime(2000, 1, 1)).days
    time_s = (days - 719_528) * 86_400
    assert text([("y", width)], time_s) == wanted


@pytest.mark.parametrize(
    ("offset_s", "wanted"),
    [
        (0, ["Z"] * 5 + ["+00", "+0000", "+00:00", "+0000", "+00:00"]),
        (3600, ["+01", "+0100", "+01:00", "+0100", "+01:00"] * 2),
        (-5400, ["-0130", "-0130", "-01:30", "-0130", "-01:30"] * 2),
        (3208, ["+0053", "+0053", "+00:53", "+005328", "+00:53:28"] * 2),
        (
            -30,
            ["Z"] * 3 + ["-000030", "-00:00:30", "+00", "+0000", "+00:00", "-000030", "-00:00:30"],
        ),
    ],
)
def test_offsets_have_javas_five_forms_each(offset_s: int, wanted: list[str]) -> None:
    found = [text([(letter, width)], 0, offset_s) for letter in "Xx" for width in range(1, 6)]
    assert found == wanted


def test_fractions_are_cut_not_rounded() -> None:
    found = [text([("S", width)], 0, 0, 987_654_321) for width in range(1, 10)]
    assert found == ["987654321"[:width] for width in range(1, 10)]


def test_a_zone_is_looked_up_by_when_its_offsets_begin() -> None:
    zone = ZoneOffsets([100, 200, 300], [0, 3600, 7200, -3600], None)
    hours = TimePattern([("x", 1)])
    found = [time_text_for_test(hours, zone, at, 0) for at in (-1, 99, 100, 199, 200, 299, 300, 9)]
    assert found == ["+00", "+00", "+01", "+01", "+02", "+02", "-01", "+00"]


def test_a_zones_last_400_years_repeat() -> None:
    cycle = 146_097 * 86_400
    zone = ZoneOffsets([0, cycle // 2], [3600, 0, 3600], 0)
    hours = TimePattern([("x", 1)])
    for number in (0, 1, 7, 700):
        start = number * cycle
        assert time_text_for_test(hours, zone, start + 5, 0) == "+00"
        assert time_text_for_test(hours, zone, start + cycle // 2, 0) == "+01"


def test_patterns_and_zones_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 64 parts, not 65"):
        TimePattern([("-", 0)] * 65)
    with pytest.raises(ValueError, match=r"1\.\.9 letters, not 10"):
        TimePattern([("S", 10)])
    with pytest.raises(ValueError, match="one offset more"):
        ZoneOffsets([1], [0])
    with pytest.raises(ValueError, match="rising starts"):
        ZoneOffsets([2, 1], [0, 0, 0])
    with pytest.raises(ValueError, match="less than a day"):
        ZoneOffsets([], [86_400])
