"""What a log in files does with descriptors and fsync (contract B-C1.3, B-C8.1)."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import Log, LogError
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_upkeep import LogUpkeep
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.log.segments.file_handle import FileHandle
from fastprod.broker.log.segments.file_segment import FileSegment, file_name
from fastprod.broker.log.segments.kept_file import KeptFile
from fastprod.broker.log.transaction_index import AbortedTxn
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import KAFKA_STORAGE_ERROR
from support.broker.log_batches import TIME, batch, contents, open_log, sequenced

SPARE = 40
WAIT_S = 20.0


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
    """While it runs, after a clean end and after a crash."""
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


def error_code(work: Callable[[Log], object], log: Log) -> int:
    """0: it was done."""
    try:
        work(log)
    except LogError as error:
        return error.error_code
    return 0


def test_a_log_that_a_full_disk_ends_is_reported_once_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B-D1 KAFKA_STORAGE_ERROR: of many clients the user learns only that their time is over."""
    log = open_log(tmp_path)
    log.append(batch(), 0)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for work in (append_more, append_more, Log.flush):
        assert error_code(work, log) == KAFKA_STORAGE_ERROR
    (reported,) = caplog.messages
    assert reported.startswith(f"{tmp_path / 't-0'}: cannot append to the log of t-0: ")
    assert "No space left on device; the partition takes no more records" in reported


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
    """The answer is KAFKA_STORAGE_ERROR, which is retriable, whichever file it was."""
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
            # A flush may have nothing to do.
            assert count > 0 or work is Log.flush
            break


def test_an_abort_that_cannot_open_a_file_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C7.4: otherwise the partition takes nothing more, and readers stop at what is undecided."""
    real = os.open
    marker = EndTransactionMarker(Producer(5, 0), 0, is_commit=False)
    for count in itertools.count():
        log = open_log(tmp_path / str(count))
        data = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        log.append(data, 0, is_verified=True)
        for segment in log._segments:
            segment.close()
        left = itertools.count(count, -1)

        def scarce(*arguments: Any, left: Iterator[int] = left, **named: Any) -> int:
            if next(left) <= 0:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(*arguments, **named)

        monkeypatch.setattr(os, "open", scarce)
        refused = error_code(lambda log: log.append_marker(marker, 0), log)
        assert log.log_end_offset == (1 if refused else 2)
        monkeypatch.setattr(os, "open", real)
        if refused:
            assert refused == KAFKA_STORAGE_ERROR
            log.append_marker(marker, 0)
        again = open_log(tmp_path / str(count))
        for each in (log, again):
            assert each.last_stable_offset == each.log_end_offset == 2
            assert each.aborted_transactions(0, 2) == [AbortedTxn(5, 0, 1, 2)]
            each.close()
        if not refused:
            assert count > 1
            break


def test_a_flush_that_meets_a_deleted_segment_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no lock for the most part, and retention goes on meanwhile."""
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


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was fsynced, in order."""
    found: list[Path] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        found.append(Path(f"/proc/self/fd/{fd}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_the_names_of_a_record_that_must_last_are_synced(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C8.1, sync="batch": a file without a name is lost without power; so is its folder."""
    lasting: set[Path] = set()
    log = open_log(tmp_path, sync="batch", segment_bytes=len(batch()))
    noting = os.fsync

    def fsync(fd: int) -> None:
        noting(fd)
        if synced[-1].is_dir():
            lasting.update(synced[-1].iterdir())

    monkeypatch.setattr(os, "fsync", fsync)
    for i in range(3):
        log.append(batch(), 0)
        assert {tmp_path / "t-0", *(tmp_path / "t-0").glob("*.log")} <= lasting
        assert synced.count(tmp_path / "t-0" / f"{i:020}.log") == 1
    log.close()


@pytest.mark.parametrize("sync", ["batch", "interval", "never"])
def test_the_recovery_point_passes_synced_files_only(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch, sync: Any
) -> None:
    """B-C8.3: what is below it is taken as it is, indexes too."""
    log = open_log(tmp_path, sync=sync, segment_bytes=len(batch()), index_interval_bytes=0)
    passed: list[int] = []
    real = PartitionFolder.write_offsets

    def write_offsets(self: PartitionFolder, start: int, point: int, sync: bool) -> None:
        for segment in log._segments:
            if segment.base_offset < point:
                for suffix in (".log", ".timeindex"):
                    assert self.path / file_name(segment.base_offset, suffix) in synced
        passed.append(point)
        real(self, start, point, sync)

    monkeypatch.setattr(PartitionFolder, "write_offsets", write_offsets)
    for _ in range(3):
        log.append(batch(), 0)
        log.flush()
    assert passed[-1] == 2
    log.append(batch(), 0)
    log.close()
    assert passed[-1] == 3


def test_a_crash_reads_no_segment_that_was_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[Path]
) -> None:
    """B-C8.1, B-C8.3, sync="never": rolled segments are synced, but not while an append waits."""
    clock = FakeClock(TIME)
    log = open_log(tmp_path, clock, segment_bytes=len(batch()))
    threads: set[int] = set()
    is_done = threading.Event()
    noting = os.fsync

    def fsync(fd: int) -> None:
        threads.add(threading.get_ident())
        noting(fd)
        if synced[-1].name == file_name(8, ".timeindex"):
            is_done.set()

    monkeypatch.setattr(os, "fsync", fsync)
    upkeep = LogUpkeep(clock, 1 << 40, None)
    upkeep.watch(log)
    for _ in range(10):
        log.append(batch(), 0)
    clock.advance(60_000)
    assert is_done.wait(WAIT_S)
    upkeep.close()
    assert threading.get_ident() not in threads
    recovered: list[int] = []
    recover = FileSegment.recover

    def count(self: FileSegment) -> tuple[int, bool]:
        recovered.append(self.base_offset)
        return recover(self)

    monkeypatch.setattr(FileSegment, "recover", count)
    again = open_log(tmp_path, segment_bytes=len(batch()))
    assert recovered == [9]
    assert (len(contents(again)), again.log_end_offset) == (10, 10)
    log.close()
    again.close()
