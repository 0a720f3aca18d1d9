"""What a log in files does with descriptors and fsync (broker C1.3, C8.1)."""

from __future__ import annotations

import errno
import itertools
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.clock import FakeClock
from fastprod.broker.log.file_handle import FileHandle
from fastprod.broker.log.kept_file import KeptFile
from fastprod.broker.log.log import Log, LogError
from fastprod.broker.log.log_config import LogConfig
from log_batches import TIME, batch, contents, open_log, sequenced

SPARE = 40


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """This process may open some more files, but not many."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + SPARE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_descriptors")
def test_there_may_be_more_segments_than_descriptors(tmp_path: Path) -> None:
    """B3: while it runs, after a clean end and after a crash."""
    config = LogConfig(segment_bytes=len(batch()))

    def opened() -> list[Log]:
        return [Log(tmp_path, "t", i, config, FakeClock(TIME)) for i in range(2 * SPARE)]

    logs = opened()
    for i in range(3):
        for log in logs:
            assert log.append(batch(value=b"%d" % i), 0).base_offset == i
    expected = [(i, b"%d-0" % i) for i in range(3)]
    assert [contents(log) for log in logs] == [expected] * len(logs)
    for log in logs:
        log.flush()
        log.close()
    logs = opened()
    assert [contents(log) for log in logs] == [expected] * len(logs)
    for log in logs:
        log.append(batch(), 1)
    crashed, logs = logs, opened()
    assert [log.log_end_offset for log in logs] == [4] * len(logs)
    for log in crashed + logs:
        log.close()


def append_more(log: Log) -> None:
    assert log.append(sequenced(5, 2), 0).base_offset == 2


def append_in_a_new_epoch(log: Log) -> None:
    assert log.append(sequenced(5, 2), 1).base_offset == 2
    assert log.end_offset_for_epoch(0) == (0, 2)


def roll(log: Log) -> None:
    log.config = LogConfig(segment_bytes=len(sequenced(5, 2)), sync=log.config.sync)
    append_more(log)
    assert len(log._segments) == 2


def delete_records(log: Log) -> None:
    assert log.delete_records(2) == 2


def error_code(work: Callable[[Log], None], log: Log) -> int:
    """0: it was done."""
    try:
        work(log)
    except LogError as error:
        return error.error_code
    return 0


@pytest.mark.parametrize(("sync", "code"), [("never", errno.EMFILE), ("batch", errno.ENFILE)])
@pytest.mark.parametrize(
    "work", [append_more, append_in_a_new_epoch, roll, delete_records, Log.flush]
)
def test_work_that_cannot_open_a_file_can_be_done_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Log], None],
    sync: Any,
    code: int,
) -> None:
    """B3: the answer is KAFKA_STORAGE_ERROR, which is retriable, whichever file it was."""
    real = os.open
    for count in itertools.count():
        directory = tmp_path / str(count)
        open_log(directory, sync=sync).close()
        log = open_log(directory, sync=sync)
        for i in range(2):
            log.append(sequenced(5, i), 0)
        for segment in log._segments:
            segment.close()
        left = itertools.count(count, -1)

        def scarce(*arguments: Any, left: Iterator[int] = left, **named: Any) -> int:
            if next(left) <= 0:
                raise OSError(code, os.strerror(code))
            return real(*arguments, **named)

        monkeypatch.setattr(os, "open", scarce)
        refused = error_code(work, log)
        if refused:
            assert (refused, log.log_end_offset) == (56, 2)
            assert error_code(work, log) == 56
        monkeypatch.setattr(os, "open", real)
        if refused:
            work(log)
        end = log.log_end_offset
        expected = [(i, b"value-0") for i in range(log.log_start_offset, end)]
        assert contents(log) == expected
        again = open_log(directory)
        assert (contents(again), again.log_end_offset) == (expected, end)
        assert again.end_offset_for_epoch(0) == log.end_offset_for_epoch(0)
        assert again.append(sequenced(5, end), 1).base_offset == end
        log.close()
        again.close()
        if not refused:
            assert count > 0
            break


def test_a_flush_that_meets_a_deleted_segment_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3: it takes no lock for the most part, and retention goes on meanwhile."""
    log = open_log(tmp_path, segment_bytes=len(batch()))
    for _ in range(3):
        log.append(batch(), 0)
    log._segments[0].close()
    real = KeptFile.open

    def late(file: KeptFile, create: bool = False) -> FileHandle:
        monkeypatch.setattr(KeptFile, "open", real)
        log.delete_records(1)
        return real(file, create)

    monkeypatch.setattr(KeptFile, "open", late)
    log.flush()
    assert log.log_start_offset == 1
    assert log.append(batch(), 0).base_offset == 3
    log.close()
