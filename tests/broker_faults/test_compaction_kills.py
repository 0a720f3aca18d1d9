"""kill -9 of a process that compacts a log while it grows (B-C4.6, B-C8.5)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from checkout import ROOT
from fastprod.broker.log.cleaning.cleaner import clean
from fastprod.broker.threads.clock import SystemClock
from support.broker import log_compactor

KILLS = 4
RECORDS = 1500
TIMEOUT_S = 60.0


def run_and_kill(directory: Path, count: int) -> dict[int, int]:
    """Let it append so many records; returns the newest that it has told of each key."""
    newest: dict[int, int] = {}
    with subprocess.Popen(
        [sys.executable, log_compactor.__file__, str(directory)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for _ in range(count):
                key, number = map(int, process.stdout.readline().split())
                newest[key] = number
        finally:
            process.kill()
        for line in process.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                key, number = map(int, line.split())
                newest[key] = number
        process.wait(TIMEOUT_S)
    return newest


def test_the_newest_value_of_each_key_is_there_after_each_kill(tmp_path: Path) -> None:
    """B-C4.6"""
    newest: dict[int, int] = {}
    for round in range(KILLS):
        newest |= run_and_kill(tmp_path, RECORDS + 37 * round)
        log = log_compactor.open_log(tmp_path)
        found = {}
        for batch in log.batches():
            for each in batch.records():
                found[int(each.key or b"-1")] = int(each.value or b"-1")
        assert {key: found[key] >= number for key, number in newest.items()} == dict.fromkeys(
            newest, True
        )
        log.close()
        newest = found
    log = log_compactor.open_log(tmp_path)
    clean(log, SystemClock().time_ms())
    active = log.segments()[-1].base_offset
    assert log.cleaned_offset == active
    left = [each.offset for batch in log.batches() for each in batch.records()]
    assert sum(offset < active for offset in left) <= log_compactor.KEYS
    log.close()
