"""ReplicaLog: its high watermark, and what a follower appends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_error import LogError
from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.threads.clock import SystemClock
from support.broker.log_batches import batch
from support.broker.world import batch_of


def new_log() -> ReplicaLog:
    return ReplicaLog(None, "t", 0, LogConfig(), SystemClock())


def append(log: ReplicaLog, epoch: int, *values: bytes) -> None:
    for value in values:
        log.append(bytearray(batch_of(value)), epoch)


def copied(log: ReplicaLog) -> ReplicaLog:
    follower = new_log()
    for part in log.read(0, 1 << 20, True, log.log_end_offset):
        follower.append_as_follower(part)
    return follower


def test_the_high_watermark_never_falls() -> None:
    log = new_log()
    append(log, 0, b"a", b"b", b"c")
    assert log.high_watermark == 0
    assert log.raise_high_watermark(2)
    assert not log.raise_high_watermark(1)
    assert log.high_watermark == log.last_stable_offset == 2
    assert log.raise_high_watermark(9)
    assert log.high_watermark == 3


def test_a_follower_has_the_bytes_epochs_and_producers_of_its_leader() -> None:
    log = new_log()
    append(log, 0, b"a", b"b" * 20_000)
    sent = bytearray(batch_of(b"c", producer_id=7, producer_epoch=0, base_sequence=0))
    log.append(sent, 3)
    follower = copied(log)
    assert follower.log_end_offset == 3
    assert b"".join(map(bytes, follower.read(0, 1 << 20, True, 3))) == b"".join(
        map(bytes, log.read(0, 1 << 20, True, 3))
    )
    assert follower.end_offset_for_epoch(0) == (0, 2)
    assert follower.latest_epoch == 3
    again = bytearray(batch_of(b"c", producer_id=7, producer_epoch=0, base_sequence=0))
    assert follower.append(again, 3).duplicate


def test_what_does_not_continue_the_log_is_refused() -> None:
    log = new_log()
    append(log, 0, b"a")
    follower = copied(log)
    with pytest.raises(LogError, match="does not continue"):
        follower.append_as_follower(log.read(0, 1 << 20, True, 1)[0])


@pytest.mark.parametrize("truncates", [False, True])
def test_gaps_of_a_compacted_leader_outlive_a_kill(tmp_path: Path, truncates: bool) -> None:
    """B-C4.6, B-C8.3: also when the topic is no longer compacted, and this log never was."""
    log = ReplicaLog(tmp_path, "t", 0, LogConfig(), SystemClock())
    for offset in (3, 4, 9, 20):
        log.append_as_follower(bytes(batch(1, base_offset=offset)))
    if truncates:
        log.truncate_to(20)
    again = ReplicaLog(tmp_path, "t", 0, LogConfig(), SystemClock())
    kept = [3, 4, 9] if truncates else [3, 4, 9, 20]
    assert again.log_end_offset == log.log_end_offset == kept[-1] + 1
    assert [each.base_offset for each in again.batches()] == kept
    again.close()
    log.close()


def test_a_log_that_begins_anew_is_empty_there() -> None:
    log = new_log()
    append(log, 0, b"a", b"b")
    log.truncate_fully_and_start_at(7)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 7, 7)
    append(log, 1, b"c")
    assert [each.base_offset for each in log.batches()] == [7]


def test_retention_keeps_what_followers_have_not() -> None:
    log = ReplicaLog(None, "t", 0, LogConfig(retention_bytes=0), SystemClock())
    append(log, 0, b"a", b"b")
    assert log.run_retention_now() == 0
    log.raise_high_watermark(2)
    assert log.run_retention_now() == 1


def test_without_descriptors_nothing_is_cut_off_until_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the replica would be out of sync until the next start."""
    log = ReplicaLog(tmp_path, "t", 0, LogConfig(), SystemClock())
    append(log, 0, b"a", b"b", b"c")

    def nothing_left(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", nothing_left)
    for cut in (lambda: log.truncate_to(1), lambda: log.truncate_fully_and_start_at(9)):
        with pytest.raises(LogError, match="cannot truncate"):
            cut()
        assert (log.has_failed, log.log_end_offset) == (False, 3)
    monkeypatch.undo()
    assert log.truncate_to(1) == 1
    append(log, 1, b"d")
    log.truncate_fully_and_start_at(9)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    log.close()
