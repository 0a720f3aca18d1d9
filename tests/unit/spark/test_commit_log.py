"""fastprod.spark.commit_log: lines of a growing file, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fastprod.spark import commit_log
from fastprod.spark.commit_log import CommitLog


@pytest.fixture
def log() -> Iterator[CommitLog]:
    log = CommitLog()
    yield log
    log.close()
    assert not log.path.exists()


def append(log: CommitLog, text: str) -> None:
    with log.path.open("a") as file:
        file.write(text)


def test_each_line_is_told_once_and_when_it_is_whole(log: CommitLog) -> None:
    append(log, '{"a": 1}\n{"a": 2}\n{"a"')
    assert log.new_lines() == [{"a": 1}, {"a": 2}]
    assert log.new_lines() == []
    append(log, ": 3}\n")
    assert log.new_lines() == [{"a": 3}]


def test_a_long_file_makes_way_for_a_new_one_and_no_line_is_lost(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "_ROTATE_BYTES", 20)
    found = []
    with log.path.open("a") as late:
        for number in range(10):
            append(log, json.dumps({"n": number}) + "\n")
            found += log.new_lines()
            if not log.path.exists():
                late.write('{"n": "late"}\n')
                late.flush()
    found += log.new_lines()
    assert [each["n"] for each in found if each["n"] != "late"] == list(range(10))
    assert {"n": "late"} in found
