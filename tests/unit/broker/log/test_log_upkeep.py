"""Retention and fsync by the clock, and no turn of it for nothing (contract B-C4.5, B-C8.1)."""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.log.log import Log
from fastprod.broker.log.log_upkeep import LogUpkeep
from fastprod.broker.log.segments.file_handle import FileHandle
from fastprod.broker.log.segments.file_segment import FileSegment
from fastprod.broker.threads.clock import FakeClock
from support.broker.log_batches import TIME, batch, contents, open_log

CHECK_MS = 300_000
SYNC_MS = 1000
WAIT_S = 20.0


class UpkeepWorld:
    """An upkeep with its logs, and what it has done to each so far."""

    def __init__(
        self, sync_interval_ms: int | None = None, cleaner_backoff_ms: int | None = None
    ) -> None:
        self.clock = FakeClock(TIME)
        self.upkeep = LogUpkeep(self.clock, CHECK_MS, sync_interval_ms, cleaner_backoff_ms)
        self.opened: list[Log] = []

    def log(self, directory: Path | None = None, **settings: Any) -> Log:
        log = open_log(directory, self.clock, **settings)
        self.opened.append(log)
        self.upkeep.watch(log)
        return log

    def await_sleep(self, until_ms: int | None) -> None:
        """Wait until the upkeep sleeps up to that moment of the clock, which began with 0."""
        deadline_ns = None if until_ms is None else until_ms * 1_000_000
        clock = self.clock
        with clock._changed:
            assert clock._changed.wait_for(
                lambda: [each.deadline_ns for each in clock._waiters] == [deadline_ns], WAIT_S
            )

    def close(self) -> None:
        self.upkeep.close()
        for log in self.opened:
            log.close()


@pytest.fixture
def world() -> Iterator[UpkeepWorld]:
    made = UpkeepWorld()
    yield made
    made.close()


def test_a_log_that_stands_still_costs_no_thread(world: UpkeepWorld) -> None:
    """B-G3: zero wake-ups."""
    log = world.log()
    assert not world.upkeep.has_thread
    log.append(batch(), 0)
    assert world.upkeep.has_thread


def test_old_records_go_when_they_are_too_old_without_another_append(world: UpkeepWorld) -> None:
    """B-C4.5: the check after the append finds nothing; the next comes when the segment is due."""
    log = world.log(retention_ms=10 * CHECK_MS)
    log.append(batch(2, timestamp=TIME), 0)
    world.await_sleep(CHECK_MS)
    world.clock.advance(CHECK_MS)
    world.await_sleep(10 * CHECK_MS + 1)
    assert log.log_start_offset == 0
    world.clock.advance(9 * CHECK_MS + 1)
    world.await_sleep(None)
    assert (log.log_start_offset, log.size_bytes) == (2, 0)


def test_a_log_that_is_deleted_is_not_kept(tmp_path: Path) -> None:
    """B-D4.3: with what it knows of its producers."""
    world = UpkeepWorld(SYNC_MS)
    log = world.log(tmp_path, segment_bytes=len(batch()))
    for _ in range(2):
        log.append(batch(), 0)
    world.await_sleep(100)
    known = weakref.ref(log)
    log.delete()
    del log
    world.opened.clear()
    assert known() is None
    world.clock.advance(CHECK_MS)
    world.await_sleep(None)
    world.close()


def test_records_above_the_size_go_after_the_append(world: UpkeepWorld) -> None:
    """B-C4.5"""
    data = batch(2)
    log = world.log(segment_bytes=len(data), retention_bytes=2 * len(data), retention_ms=-1)
    for turn in (1, 2):
        for _ in range(5):
            log.append(data[:], 0)
        assert log.size_bytes > 2 * len(data)
        world.await_sleep(turn * CHECK_MS)
        world.clock.advance(CHECK_MS)
        world.await_sleep(None)
        assert log.size_bytes == 2 * len(data)


def test_a_log_that_was_there_before_is_looked_at_too(tmp_path: Path) -> None:
    """B-C4.5: nobody has to append after a restart."""
    first = open_log(tmp_path, FakeClock(TIME))
    first.append(batch(3), 0)
    first.close()
    world = UpkeepWorld()
    log = world.log(tmp_path, retention_ms=1)
    world.await_sleep(CHECK_MS)
    world.clock.advance(CHECK_MS)
    world.await_sleep(None)
    assert log.log_start_offset == 3
    world.close()


def test_what_was_appended_last_is_synced_without_another_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C8.1: sync="interval" promises it after the interval, not after the next append."""
    world = UpkeepWorld(SYNC_MS)
    log = world.log(tmp_path, retention_ms=-1)
    synced: list[int] = []
    sync = FileHandle.sync

    def note(self: FileHandle) -> None:
        sync(self)
        synced.append(log.log_end_offset)

    monkeypatch.setattr(FileHandle, "sync", note)
    for turn in (1, 2):
        log.append(batch(), 0)
        assert turn not in synced
        world.await_sleep(turn * SYNC_MS)
        world.clock.advance(SYNC_MS)
        world.await_sleep(CHECK_MS)
        assert synced[-1] == turn
    synced.clear()
    world.clock.advance(CHECK_MS - 2 * SYNC_MS)
    world.await_sleep(None)
    assert synced == []
    world.close()


def test_what_could_not_be_synced_is_tried_again_without_another_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C8.1: there were no descriptors for a while."""
    world = UpkeepWorld(SYNC_MS)
    log = world.log(tmp_path, retention_ms=-1)
    calls: list[str] = []

    def flush(self: FileSegment, complete: bool = False) -> None:
        calls.append(self._file.path.name)
        if len(calls) == 1:
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(FileSegment, "flush", flush)
    log.append(batch(), 0)
    for turn in (1, 2):
        world.await_sleep(turn * SYNC_MS)
        world.clock.advance(SYNC_MS)
    world.await_sleep(CHECK_MS)
    assert len(calls) > 1
    assert not log.has_failed
    world.close()


def test_other_settings_hold_for_a_log_that_stands_still(world: UpkeepWorld) -> None:
    """B-D4.9, B-C4.5: nobody appends to it, and what was planned before would come too late."""
    log = world.log(retention_ms=1000 * CHECK_MS)
    log.append(batch(2), 0)
    world.await_sleep(CHECK_MS)
    world.clock.advance(CHECK_MS)
    world.await_sleep(1000 * CHECK_MS + 1)
    log.reconfigure(log.config.__replace__(retention_ms=1))
    world.await_sleep(2 * CHECK_MS)
    assert log.log_start_offset == 0
    world.clock.advance(CHECK_MS)
    world.await_sleep(None)
    assert log.log_start_offset == 2


def test_a_log_is_compacted_as_soon_as_its_topic_says_so() -> None:
    """B-D4.9, B-C4.6: its last append came when it was not."""
    world = UpkeepWorld(cleaner_backoff_ms=SYNC_MS)
    log = world.log(segment_bytes=len(batch()), retention_ms=-1)
    for _ in range(3):
        log.append(batch(), 0)
    world.await_sleep(CHECK_MS)
    log.reconfigure(log.config.__replace__(compact=True, min_cleanable_dirty_ratio=0))
    world.await_sleep(SYNC_MS)
    world.clock.advance(SYNC_MS)
    world.await_sleep(CHECK_MS)
    assert [offset for offset, _ in contents(log)] == [1, 2]
    world.close()


def test_more_keys_than_there_is_room_for_are_compacted_without_another_append() -> None:
    """B-C4.6: the map has room for 100 keys, and Kafka's cleaner takes the log again at once."""
    world = UpkeepWorld(cleaner_backoff_ms=SYNC_MS)
    one = len(batch(key=b"k000"))
    log = world.log(
        segment_bytes=50 * one,
        retention_ms=-1,
        compact=True,
        min_cleanable_dirty_ratio=0,
        cleaner_buffer_bytes=0,
    )
    for number in range(801):
        log.append(batch(key=b"k%03d" % (number % 400)), 0)
    world.await_sleep(SYNC_MS)
    world.clock.advance(SYNC_MS)
    world.await_sleep(CHECK_MS)
    assert [offset for offset, _ in contents(log)] == [*range(400, 801)]
    world.close()


def test_what_else_is_due_comes_between_the_parts_of_a_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-C8.1: with `sync="interval"` records do not wait for the whole of a large log."""
    world = UpkeepWorld(SYNC_MS, cleaner_backoff_ms=SYNC_MS // 2)
    done: list[str] = []
    more = [0, 0, None]

    def clean(log: Log, now_ms: int, is_stopped: Callable[[], bool]) -> int | None:
        if not done:
            world.clock.advance(SYNC_MS)
        done.append("compacted")
        return more.pop(0)

    monkeypatch.setattr("fastprod.broker.log.cleaning.cleaner.clean", clean)
    monkeypatch.setattr(Log, "flush", lambda log: done.append("synced"))
    world.log(compact=True).append(batch(), 0)
    world.await_sleep(SYNC_MS // 2)
    world.clock.advance(SYNC_MS // 2)
    world.await_sleep(CHECK_MS)
    assert done == ["compacted", "synced", "compacted", "compacted"]
    world.close()


def test_the_same_settings_and_an_empty_log_start_nothing(world: UpkeepWorld) -> None:
    log = world.log()
    log.reconfigure(log.config.__replace__(retention_ms=1))
    log.reconfigure(log.config)
    assert not world.upkeep.has_thread


def test_a_closed_log_is_left_alone(world: UpkeepWorld, caplog: pytest.LogCaptureFixture) -> None:
    log = world.log(retention_ms=1)
    log.append(batch(), 0)
    log.close()
    world.await_sleep(CHECK_MS)
    world.clock.advance(CHECK_MS)
    world.await_sleep(None)
    assert caplog.records == []


def test_after_the_end_nothing_is_started(world: UpkeepWorld) -> None:
    log = world.log()
    world.upkeep.close()
    log.append(batch(), 0)
    assert not world.upkeep.has_thread


def test_a_log_that_is_deleted_meanwhile_is_left_alone(
    world: UpkeepWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(log: Log) -> int:
        log.delete()
        raise FileNotFoundError("it was there a moment ago")

    monkeypatch.setattr(Log, "run_retention_now", late)
    world.log(retention_ms=1).append(batch(), 0)
    world.await_sleep(CHECK_MS)
    world.clock.advance(CHECK_MS)
    world.await_sleep(None)
    assert caplog.records == []
