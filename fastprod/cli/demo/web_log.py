"""WebLog: lines of a web server's log, and the records expected of them, in plain Python.

No Spark here: what the example writes is compared with this.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

_LINE: Final = re.compile(
    r'(?P<client>\S+) - (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<url>\S+) '
    r'HTTP/1\.1" (?P<status>\d+) (?P<bytes>\S+) "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)"'
)
_TEAMS: Final = {"cart": "shop", "items": "shop", "login": "accounts", "help": "support"}
_BEGAN: Final = datetime(2026, 3, 1, 23, 40, tzinfo=UTC)
_SPAN_S: Final = (
    2400  # less than the watermark: no line is late, in whatever order the files are read
)
_AGENTS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/145.0",
    "Mozilla/5.0 (Macintosh) Safari/26.1",
    "ExampleBot/2.1 (+https://bot.example/)",
    "curl/8.14",
)
_URLS: Final = (
    "/",
    "/cart",
    "/cart?item={}",
    "/items/{}",
    "/login",
    "/help/{}.html",
    "/robots.txt",
)
_STATUS: Final = (200, 200, 200, 200, 304, 404, 500, 503)

Event = tuple[str, int, dict[str, Any]]
"""Key, timestamp in ms, and value of a record of a request."""


class WebLog:
    """A log of so many lines, always the same; one in fifty is no request.

    Args:
        line_count: how many.
    """

    def __init__(self, line_count: int) -> None:
        self.lines = list(_lines(line_count))

    def write(self, folder: Path, file_count: int = 4) -> None:
        """Write the lines to files in a new folder."""
        folder.mkdir()
        size = -(-len(self.lines) // file_count)
        for number in range(file_count):
            path = folder / f"access-{number}.log"
            some = self.lines[number * size : (number + 1) * size]
            path.write_text("".join(f"{line}\n" for line in some))
            # A stream reads them in the order of these times.
            at_s = _BEGAN.timestamp() + number
            os.utime(path, (at_s, at_s))

    def events(self) -> Iterator[Event]:
        """The expected records of the topic of requests, in the order of the lines."""
        return (event for event in map(_event, self.lines) if event is not None)

    def figures(self) -> dict[str, dict[str, Any]]:
        """The expected last record of each key in the topic of figures."""
        found: dict[str, dict[str, Any]] = {}
        for _, time_ms, value in self.events():
            minute = datetime.fromtimestamp(time_ms // 60_000 * 60, UTC)
            figures = found.setdefault(
                f"{value['team']} {minute.timestamp():.0f}",
                {
                    "minute": f"{minute:%Y-%m-%dT%H:%M:%S}.000Z",
                    "team": value["team"],
                    "requests": 0,
                    "errors": 0,
                    "bytes": 0,
                },
            )
            figures["requests"] += 1
            figures["errors"] += value["is_error"]
            figures["bytes"] += value["bytes"]
        return found

    def event_differences(self, read: Iterable[tuple[bytes | None, bytes | None]]) -> str:
        """Compare keys and values of the topic of requests; "": as expected, each once."""
        expected = sorted(_canonical(key, value) for key, _, value in self.events())
        found = sorted(
            _canonical((key or b"").decode(), json.loads(value or b"null")) for key, value in read
        )
        return _difference(expected, found)

    def figure_differences(self, read: Iterable[tuple[bytes | None, bytes | None]]) -> str:
        """Compare the topic of figures, oldest record first: the last one of each key counts."""
        last = {(key or b"").decode(): json.loads(value or b"null") for key, value in read}
        expected = sorted(_canonical(*each) for each in self.figures().items())
        return _difference(expected, sorted(_canonical(*each) for each in last.items()))


def _lines(line_count: int) -> Iterator[str]:
    choose = random.Random(line_count)
    for number in range(line_count):
        if number % 50 == 49:
            yield choose.choice(("", "-", "connection reset by peer", 'GET "/" 200'))
            continue
        time = _BEGAN + timedelta(seconds=number * _SPAN_S // line_count)
        url = choose.choice(_URLS).format(choose.randrange(1000))
        status = choose.choice(_STATUS)
        size = "-" if status == 304 else choose.randrange(100, 50_000)
        yield (
            f"192.0.2.{choose.randrange(1, 255)} - - [{time:%d/%b/%Y:%H:%M:%S} +0000] "
            f'"{choose.choice(("GET", "GET", "POST"))} {url} HTTP/1.1" {status} {size} "-" '
            f'"{choose.choice(_AGENTS)}"'
        )


def _event(line: str) -> Event | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    time = datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z")
    path = match["url"].split("?")[0]
    section = path.split("/")[1]
    status = int(match["status"])
    value = {
        "section": section,
        "client": match["client"],
        "time": f"{time:%Y-%m-%dT%H:%M:%S}.000Z",
        "method": match["method"],
        "path": path,
        "status": status,
        "bytes": 0 if match["bytes"] == "-" else int(match["bytes"]),
        "team": _TEAMS.get(section, "web"),
        "is_bot": "bot" in match["agent"].lower(),
        "is_error": status >= 500,
    }
    return match["client"], int(time.timestamp() * 1000), value


def _canonical(key: str, value: Any) -> str:
    return f"{key} {json.dumps(value, sort_keys=True)}"


def _difference(expected: list[str], found: list[str]) -> str:
    if expected == found:
        return ""
    missing, foreign = set(expected) - set(found), set(found) - set(expected)
    told = f"{len(found):,} records where {len(expected):,} are expected"
    if missing:
        told += f"; missing: {min(missing)}"
    if foreign:
        told += f"; not expected: {min(foreign)}"
    return told
