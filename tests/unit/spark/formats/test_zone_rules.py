"""Offsets of time zones, against Python's own reading of the same files."""

from __future__ import annotations

import importlib.resources
import random
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest

from fastprod._core.json.times import TimePattern
from fastprod._core.testing.json_doors import time_text_for_test
from fastprod.spark.formats.zone_rules import zone_offsets

OFFSET = TimePattern([("x", 5)])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_S, LAST_S = -62_100_000_000, 253_400_000_000


def pythons(name: str) -> zoneinfo.ZoneInfo:
    with (importlib.resources.files("tzdata") / "zoneinfo" / name).open("rb") as file:
        return zoneinfo.ZoneInfo.from_file(file, key=name)


def offset_text(offset: timedelta) -> str:
    """As Java's xxxxx."""
    seconds = int(offset.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}"
    return text + (f":{seconds % 60:02}" if seconds % 60 else "")


def test_every_zone_has_the_offsets_that_python_has() -> None:
    chance = random.Random(9)
    names = (importlib.resources.files("tzdata") / "zones").read_text().split()
    assert len(names) > 400
    for name in names:
        zone, ours = pythons(name), zone_offsets(name)
        if name in ("EST", "HST", "MST"):
            continue  # Java's short names are fixed offsets
        times = [chance.randrange(FIRST_S, LAST_S) for _ in range(20)]
        times += [chance.randrange(-3_000_000_000, 5_000_000_000) for _ in range(60)]
        for time_s in times:
            offset = (EPOCH + timedelta(seconds=time_s)).astimezone(zone).utcoffset()
            assert offset is not None
            found = time_text_for_test(OFFSET, ours, time_s, 0)
            assert found == offset_text(offset), (name, time_s)


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Nuuk", "Australia/Lord_Howe"])
def test_clocks_change_at_the_very_second_also_after_the_year_9999(name: str) -> None:
    zone, ours = pythons(name), zone_offsets(name)
    cycle = 146_097 * 86_400
    for year in (1990, 2030, 2299, 2401):
        at = datetime(year, 1, 1, tzinfo=UTC)
        changes = 0
        for _ in range(365 * 48):
            after = at + timedelta(minutes=30)
            if at.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
                changes += 1
                second = int(after.timestamp())
                for cycles in (0, 30):
                    texts = [
                        time_text_for_test(OFFSET, ours, second + cycles * cycle + step, 0)
                        for step in (-1, 0)
                    ]
                    wanted = [
                        (EPOCH + timedelta(seconds=second + step)).astimezone(zone).utcoffset()
                        for step in (-1, 0)
                    ]
                    if year > 2000 or cycles == 0:
                        assert texts == [offset_text(each) for each in wanted if each is not None]
            at = after
        assert changes == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Z", "+00:00"),
        ("UTC", "+00:00"),
        ("+5", "+05:00"),
        ("-0330", "-03:30"),
        ("GMT+8", "+08:00"),
        ("UTC-01:02:03", "-01:02:03"),
        ("EST", "-05:00"),
        ("JST", "+09:00"),
    ],
)
def test_java_has_more_names_for_zones(name: str, text: str) -> None:
    assert time_text_for_test(OFFSET, zone_offsets(name), 1_000_000_000, 0) == text


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "+19:00", "/etc/passwd", "x"]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="there is no time zone"):
        zone_offsets(name)
