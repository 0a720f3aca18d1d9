"""The offsets of a time zone from UTC, from the time zone data base.

Spark names zones as java.time.ZoneId does.  Java has its own copy of the
data base: versions can differ. Without the package tzdata times before 1970 can differ, too, for
which some systems have more details.
"""

from __future__ import annotations

import importlib.resources
import re
import struct
import zoneinfo
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Final

from fastprod._core.json.times import ZoneOffsets

_FIXED: Final = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hour>\d{1,2})"
    r"(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d))?)?",
    re.ASCII,
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", re.ASCII)
_ZERO: Final = ("Z", "UTC", "GMT", "UT")
# java.time.ZoneId.SHORT_IDS; its three fixed ones are written as offsets.
_SHORT: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_RULE: Final = re.compile(
    r"(?:<[^>]+>|[A-Za-z]+)(?P<standard>[+-]?[\d:]+)"
    r"(?:(?:<[^>]+>|[A-Za-z]+)(?P<summer>[+-]?[\d:]+)?,(?P<begin>[^,]+),(?P<end>[^,]+))?",
    re.ASCII,
)
_DAY_S: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_CYCLE_YEARS: Final = 400
_CYCLE_S: Final = 146_097 * _DAY_S


@lru_cache(maxsize=64)
def zone_offsets(name: str) -> ZoneOffsets:
    """The offsets of a zone by Java's name for it: a region, UTC, or an offset such as +05:30.

    Raises:
        ValueError: there is no such zone here.
    """
    fixed = _fixed_offset(_SHORT.get(name, name))
    if fixed is not None:
        return ZoneOffsets([], [fixed])
    data = _zone_file(_SHORT.get(name, name))
    if data is None:
        raise ValueError(
            f"there is no time zone {name!r} here (pip install tzdata brings them all): "
            f"name a region such as Europe/Berlin, UTC or an offset such as +05:30"
        )
    return _read_zone(data)


def _fixed_offset(name: str) -> int | None:
    """Seconds ahead of UTC, or None for a region."""
    if name in _ZERO:
        return 0
    found = _FIXED.fullmatch(name)
    if found is None:
        return None
    offset = int(found["hour"]) * 3600 + int(found["minute"] or 0) * 60 + int(found["second"] or 0)
    if offset > 18 * 3600:
        return None
    return -offset if found["sign"] == "-" else offset


def _zone_file(name: str) -> bytes | None:
    """The TZif file of a region: of tzdata, a package that agrees with Java, else the system's."""
    if not _NAME.fullmatch(name):
        return None
    try:
        package = importlib.resources.files("tzdata") / "zoneinfo" / name
        if package.is_file():
            return package.read_bytes()
    except ModuleNotFoundError:
        pass
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes()
    return None


def _read_zone(data: bytes) -> ZoneOffsets:
    """Read the 64-bit part of a TZif file (RFC 9636), which follows the 32-bit one."""
    counts = struct.unpack(">6l", data[20:44])
    at = 44 + _part_size(counts, 4)
    if data[:4] != b"TZif" or data[at : at + 4] != b"TZif":
        raise ValueError("a time zone file of this system is no TZif file of version 2 or more")
    counts = struct.unpack(">6l", data[at + 20 : at + 44])
    _, _, _, time_count, type_count, _ = counts
    at += 44
    starts = list(struct.unpack(f">{time_count}q", data[at : at + 8 * time_count]))
    kinds = data[at + 8 * time_count : at + 9 * time_count]
    types = at + 9 * time_count
    offsets = [
        struct.unpack(">l", data[types + 6 * i : types + 6 * i + 4])[0] for i in range(type_count)
    ]
    footer = data[at + _part_size(counts, 8) :].strip(b"\n").decode("ascii")
    held = [offsets[0], *(offsets[kind] for kind in kinds)]
    return _continued(starts, held, footer)


def _part_size(counts: tuple[int, ...], time_bytes: int) -> int:
    universal, standard, leap, times, types, letters = counts
    return (
        times * (time_bytes + 1) + types * 6 + letters + leap * (time_bytes + 4) + standard
    ) + universal


def _continued(starts: list[int], offsets: list[int], footer: str) -> ZoneOffsets:
    """Apply the rule of the last line for 400 years, after which the calendar repeats."""
    # Some files begin with a start at the big bang, which is no change of the offset.
    while starts and starts[0] <= -(2**59):
        del starts[0], offsets[0]
    rule = _RULE.fullmatch(footer)
    if rule is None:
        return ZoneOffsets(starts, offsets)
    standard = -_seconds(rule["standard"])
    if rule["begin"] is None:
        return ZoneOffsets(starts, offsets)
    summer = -_seconds(rule["summer"]) if rule["summer"] else standard + 3600
    first_year = 1970 if not starts else 1970 + starts[-1] // 31_556_952
    changes = sorted(_changes(rule["begin"], rule["end"], standard, summer, first_year))
    last = starts[-1] if starts else -(2**62)
    for start, offset in changes:
        if start > last:
            starts.append(start)
            offsets.append(offset)
    return ZoneOffsets(starts, offsets, starts[-1] - _CYCLE_S)


def _changes(
    begin: str, end: str, standard: int, summer: int, first_year: int
) -> Iterator[tuple[int, int]]:
    # One year more at both ends: the first may be over, at the last one the cycle repeats.
    for year in range(first_year, first_year + _CYCLE_YEARS + 2):
        yield _moment(begin, year) - standard, summer
        yield _moment(end, year) - summer, standard


def _moment(rule: str, year: int) -> int:
    """Local seconds since the epoch of M3.2.0/2 (month, week, weekday), J60 or 59 in a year."""
    day, _, time = rule.partition("/")
    time_s = _seconds(time) if time else 7200
    # date() ends with the year 9999; the calendar repeats every 400 years.
    cycles, year = divmod(year - 2000, _CYCLE_YEARS)
    return _day(day, year + 2000) * _DAY_S + time_s + cycles * _CYCLE_S


def _day(rule: str, year: int) -> int:
    """Days since the epoch."""
    january = date(year, 1, 1).toordinal() - _EPOCH
    if rule[0] != "M":
        is_leap = date(year, 3, 1).toordinal() - date(year, 2, 1).toordinal() == 29
        if rule[0] == "J":
            number = int(rule[1:])
            return january + number - 1 + (is_leap and number >= 60)
        return january + int(rule)
    month, week, weekday = (int(part) for part in rule[1:].split("."))
    first = date(year, month, 1).toordinal()
    day = first + (weekday - first) % 7 + 7 * (week - 1)
    after = date(year + month // 12, month % 12 + 1, 1).toordinal()
    while day >= after:
        day -= 7
    return day - _EPOCH


def _seconds(text: str) -> int:
    """Of [+-]hh[:mm[:ss]]."""
    sign = -1 if text[0] == "-" else 1
    hours, minutes, seconds = [*map(int, text.lstrip("+-").split(":")), 0, 0][:3]
    return sign * (hours * 3600 + minutes * 60 + seconds)
