"""HighWatermarkCheckpoints: what a restart knows of the high watermarks."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fastprod.broker.replica.high_watermark_checkpoints import (
    CHECKPOINT_NAME,
    HighWatermarkCheckpoints,
)
from fastprod.broker.replica.replica_fetcher import ReplicaFetcher
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import NONE
from support.broker.replica_world import high_watermarks, pause, replicated, values
from support.broker.world import BrokerWorld, batch_of, wait_for

DAMAGED = [
    b"",
    b"0\n",
    b"0\n2\nt 0 1\n",
    b"1\n1\nt 0 1\n",
    b"0\n1\nt 0\n",
    b"0\n1\nt 0 1 2\n",
    b"0\n1\nt zero 1\n",
    b"\xff\xfe\0",
]


class Planned:
    """A timer that is moved by hand."""

    def __init__(self) -> None:
        self.actions: list[Callable[[], None]] = []

    def run_later(self, delay_ms: float, action: Callable[[], None]) -> None:
        assert delay_ms == 5000
        self.actions.append(action)

    def run(self) -> None:
        (action,) = self.actions
        self.actions.clear()
        action()


def checkpoints(
    folder: Path, offsets: dict[int, dict[tuple[str, int], int]], planned: Planned
) -> HighWatermarkCheckpoints:
    def found() -> dict[int, dict[tuple[str, int], int]]:
        return {node_id: dict(each) for node_id, each in offsets.items()}

    return HighWatermarkCheckpoints(lambda id: folder, found, planned.run_later, 5000)


def test_the_file_is_kafkas_and_read_again(tmp_path: Path) -> None:
    """B-C1.3, B-C1.4: a version, a count, and a line of topic, partition and offset for each."""
    offsets = {0: {("t", 0): 7, ("u.v-w", 12): 2**40}}
    made = checkpoints(tmp_path, offsets, Planned())
    made.begin()
    made.save()
    text = (tmp_path / "replication-offset-checkpoint").read_text()
    assert text == f"0\n2\nt 0 7\nu.v-w 12 {2**40}\n"
    again = checkpoints(tmp_path, {}, Planned())
    assert again.kept(0, "t", 0) == 7
    assert again.kept(0, "u.v-w", 12) == 2**40
    assert again.kept(0, "t", 1) == 0


def test_it_is_written_once_for_many_moves_and_only_if_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C1.4: it is synced before it gets its name."""
    synced: list[str] = []

    def fsync(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)
    offsets, planned = {0: {("t", 0): 1}}, Planned()
    made = checkpoints(tmp_path, offsets, planned)
    made.moved()
    made.save()
    assert planned.actions == []
    made.begin()
    made.moved()
    made.moved()
    assert not (tmp_path / CHECKPOINT_NAME).exists()
    planned.run()
    assert synced == [str(tmp_path / f"{CHECKPOINT_NAME}.tmp"), str(tmp_path)]
    made.moved()
    planned.run()
    assert len(synced) == 2
    offsets[0]["t", 0] = 2
    made.moved()
    planned.run()
    assert len(synced) == 4


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_logged_and_counts_as_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / CHECKPOINT_NAME).write_bytes(content)
    made = checkpoints(tmp_path, {0: {("t", 0): 3}}, Planned())
    assert made.kept(0, "t", 0) == 0
    assert str(tmp_path / CHECKPOINT_NAME) in caplog.text
    made.begin()
    made.save()
    assert checkpoints(tmp_path, {}, Planned()).kept(0, "t", 0) == 3


def test_a_file_that_cannot_be_written_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, planned = tmp_path / "gone", Planned()
    made = checkpoints(folder, {0: {("t", 0): 3}}, planned)
    made.begin()
    made.moved()
    planned.run()
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
    folder.mkdir()
    made.moved()
    planned.run()
    assert checkpoints(folder, {}, planned).kept(0, "t", 0) == 3


def open_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """A broker with that folder whose followers do not fetch."""
    monkeypatch.setattr(ReplicaFetcher, "mark", lambda self, partition: None)
    return BrokerWorld(brokers=3, data_dir=folder)


def found_in(world: BrokerWorld) -> ReplicatedPartition:
    found = world.state.topics.partition("t", 0)
    assert isinstance(found, ReplicatedPartition)
    return found


def fill(world: BrokerWorld) -> ReplicatedPartition:
    """Two records that all have, and one that the leader has alone."""
    found = replicated(world)
    assert world.produce(batch_of(b"a", b"b")).error_code == NONE
    wait_for(lambda: high_watermarks(found) == [2, 2, 2])
    pause(world, 1, 2)
    assert world.produce(batch_of(b"c"), acks=1).error_code == NONE
    return found


def test_a_restart_shows_what_was_replicated_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C5.3: the high watermark is neither lower nor higher than before."""
    with BrokerWorld(brokers=3, data_dir=tmp_path) as world:
        fill(world)
    for folder in (tmp_path, tmp_path / "node@1", tmp_path / "node@2"):
        assert (folder / CHECKPOINT_NAME).read_text() == "0\n1\nt 0 2\n"
    with monkeypatch.context() as patch, open_again(tmp_path, patch) as again:
        found = found_in(again)
        assert high_watermarks(found) == [2, 2, 2]
        assert values(found, 0) == [b"a", b"b", b"c"]
    with BrokerWorld(brokers=3, data_dir=tmp_path) as third:
        wait_for(lambda: high_watermarks(found_in(third)) == [3, 3, 3])


def test_a_crash_finds_the_high_watermark_of_some_seconds_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, folder = FakeClock(time.time_ns() // 1_000_000), tmp_path / "running"
    files = [folder / each / CHECKPOINT_NAME for each in (".", "node@1", "node@2")]
    with BrokerWorld(brokers=3, data_dir=folder, clock=clock) as world:
        fill(world)
        assert not any(each.exists() for each in files)
        clock.advance(5000)
        wait_for(lambda: all(each.exists() for each in files))
        shutil.copytree(folder, tmp_path / "crashed")
    with open_again(tmp_path / "crashed", monkeypatch) as again:
        assert high_watermarks(found_in(again)) == [2, 2, 2]
        assert found_in(again).log_at(0).log_end_offset == 3


def test_a_damaged_file_costs_no_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with BrokerWorld(brokers=3, data_dir=tmp_path) as world:
        fill(world)
    (tmp_path / CHECKPOINT_NAME).write_bytes(b"0\n7\n")
    with BrokerWorld(brokers=3, data_dir=tmp_path) as again:
        assert CHECKPOINT_NAME in caplog.text
        found = found_in(again)
        wait_for(lambda: high_watermarks(found) == [3, 3, 3])
        assert values(found, 1) == [b"a", b"b", b"c"]


def test_an_offset_beyond_the_log_is_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that lost power may have lost records that the file still counts."""
    with BrokerWorld(brokers=3, data_dir=tmp_path) as world:
        fill(world)
    (tmp_path / CHECKPOINT_NAME).write_text("0\n1\nt 0 99\n")
    with open_again(tmp_path, monkeypatch) as again:
        assert high_watermarks(found_in(again)) == [3, 2, 2]
