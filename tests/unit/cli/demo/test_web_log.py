"""fastprod.cli.demo.web_log: what the example is compared with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastprod.cli.demo.web_log import WebLog

LINES = 1000


@pytest.fixture(scope="module")
def log() -> WebLog:
    return WebLog(LINES)


def as_read(log: WebLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(key.encode(), json.dumps(value).encode()) for key, _, value in log.events()]


def test_a_log_is_the_same_each_time_and_a_fiftieth_of_it_is_no_request(log: WebLog) -> None:
    assert WebLog(LINES).lines == log.lines
    assert len(list(log.events())) == LINES * 49 // 50


def test_its_files_have_all_lines_in_order(log: WebLog, tmp_path: Path) -> None:
    log.write(tmp_path / "logs", file_count=3)
    paths = sorted((tmp_path / "logs").iterdir(), key=lambda path: path.stat().st_mtime)
    assert len(paths) == 3
    assert "".join(path.read_text() for path in paths).split("\n")[:-1] == log.lines


def test_figures_add_up_to_the_requests(log: WebLog) -> None:
    figures, events = list(log.figures().values()), list(log.events())
    assert sum(each["requests"] for each in figures) == len(events)
    assert sum(each["bytes"] for each in figures) == sum(each[2]["bytes"] for each in events)
    errors = [each for each in events if each[2]["status"] in (500, 503)]
    assert sum(each["errors"] for each in figures) == len(errors) > 0
    assert len({each["minute"] for each in figures}) == 40


def test_what_differs_is_told(log: WebLog) -> None:
    read = as_read(log)
    assert log.event_differences(reversed(read)) == ""
    assert "979 records where 980 are expected; missing: 192.0.2." in log.event_differences(
        read[1:]
    )
    assert "981 records where 980 are expected" in log.event_differences([*read, read[0]])
    foreign = log.event_differences([*read, (None, b'{"a": 1}')])
    assert foreign.endswith('not expected:  {"a": 1}')


def test_of_figures_the_last_of_each_key_counts(log: WebLog) -> None:
    last = [(key.encode(), json.dumps(value).encode()) for key, value in log.figures().items()]
    first = [(key, b"{}") for key, _ in last]
    assert log.figure_differences([*first, *last]) == ""
    assert log.figure_differences([*last, first[0]]) != ""
