"""Segments that are rewritten, and what a crash leaves of that (B-C4.6, B-C8.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.log.cleaning.cleaner import CleaningStopped, clean
from fastprod.broker.threads.clock import FakeClock
from support.broker.compacted_log import CompactedLog
from support.broker.log_batches import TIME, batch, open_log


def filled(directory: Path | None, count: int = 60, **settings: Any) -> CompactedLog:
    made = CompactedLog(directory, **settings)
    for number in range(count):
        made.append([(b"k%d" % (number % 7), b"%d" % number)])
    return made


@pytest.fixture(params=["memory", "files"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "files" else None


def test_only_the_newest_record_of_each_key_stays(directory: Path | None) -> None:
    """B-C4.6: but for the active segment; offsets stay, the log becomes small."""
    made = filled(directory)
    end, before = made.log.log_end_offset, made.log.size_bytes
    clean(made.log, made.clock.time_ms())
    active = made.log.segments()[-1].base_offset
    offsets = [each.offset for found in made.log.batches() for each in found.records()]
    assert offsets == [*range(active - 7, end)]
    assert (made.log.log_end_offset, made.log.log_start_offset) == (end, 0)
    assert made.log.size_bytes < before / 3
    assert made.log.cleaned_offset == active
    made.check()
    # Offsets that are gone are read from the next one that is there.
    (part,) = made.log.read(1, 10, True)
    assert int.from_bytes(bytes(part)[:8], "big") == active - 7
    made.log.close()


@pytest.mark.parametrize("by", ["size", "age"])
def test_retention_goes_on_behind_a_segment_that_is_left_empty(
    directory: Path | None, by: str
) -> None:
    """B-C4.5, B-C4.6: cleanup.policy=compact,delete."""
    data = batch(value=b"x" * 50)
    log = open_log(
        directory,
        clock := FakeClock(TIME),
        segment_bytes=2 * len(data) + 50,
        compact=True,
        min_cleanable_dirty_ratio=0,
        retention_ms=-1,
    )
    for key in (*[b"a"] * 2, *[b"k%d" % number for number in range(8)], b"a", b"z", b"z"):
        log.append(batch(value=b"x" * 50, key=key), 0)
    clean(log, clock.time_ms())
    segments = log.segments()
    assert segments[0].size_bytes == 0 < segments[1].size_bytes
    if by == "size":
        kept_bytes = sum(each.size_bytes for each in segments[-2:])
        log.reconfigure(log.config.__replace__(retention_bytes=kept_bytes))
        assert log.run_retention_now() == len(segments) - 2
        assert log.size_bytes == kept_bytes
    else:
        log.reconfigure(log.config.__replace__(retention_ms=1000))
        wait_ms = log.retention_wait_ms()
        assert wait_ms == 1001
        clock.advance(wait_ms)
        assert log.run_retention_now() == len(segments)
    log.close()


def test_a_tombstone_stays_for_a_while(directory: Path | None) -> None:
    """delete.retention.ms, from when it was first met."""
    made = CompactedLog(directory)
    made.append([(b"gone", b"1")])
    made.append([(b"gone", None)])

    def tombstones() -> int:
        for number in range(20):
            made.append([(b"other", b"%d" % number * 40)])
        clean(made.log, made.clock.time_ms())
        made.check()
        records = [each for found in made.log.batches() for each in found.records()]
        assert (b"gone", b"1") not in [(each.key, each.value) for each in records]
        return sum(each.key == b"gone" for each in records)

    assert tombstones() == 1
    made.clock.advance(900)
    assert tombstones() == 1
    made.clock.advance(101)
    assert tombstones() == 0
    made.log.close()


def test_with_delete_old_segments_go_too(directory: Path | None) -> None:
    """cleanup.policy=compact,delete"""
    made = filled(directory, retention_ms=1000)
    clean(made.log, made.clock.time_ms())
    assert made.log.run_retention_now() == 0
    made.clock.advance(1001)
    assert made.log.run_retention_now() > 0
    assert made.log.log_start_offset == made.log.log_end_offset
    made.log.close()


def test_keys_that_do_not_fit_are_cleaned_in_turns(directory: Path | None) -> None:
    """Bounded memory: the map has room for 100 keys here."""
    made = CompactedLog(directory, cleaner_buffer_bytes=0)
    for number in range(400):
        made.append([(b"k%d" % (number % 150), b"%d" % number)])
    ends = []
    for _ in range(12):
        clean(made.log, made.clock.time_ms())
        made.check()
        ends.append(made.log.cleaned_offset)
    assert ends[0] < ends[1]
    assert ends[-1] == made.log.segments()[-1].base_offset
    made.log.close()


def test_a_stop_is_not_waited_for(tmp_path: Path) -> None:
    """B-C4.6: what was being made is removed."""
    made = filled(tmp_path)
    answers = iter([False] * 30)
    with pytest.raises(CleaningStopped):
        clean(made.log, made.clock.time_ms(), lambda: next(answers, True))
    assert list((tmp_path / "t-0").glob("*.cleaned")) == []
    made.check()
    made.log.close()


class Killed(BaseException):
    """The process ends here."""


def test_a_kill_at_any_step_leaves_a_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C8.5: each rename and each removal could be the last one."""
    step, is_over = 0, False
    while not is_over:
        folder = tmp_path / str(step)
        folder.mkdir()
        made = filled(folder, 40)
        left = [step]
        with monkeypatch.context() as patch:
            for name in ("rename", "replace", "unlink"):
                patch.setattr(Path, name, counted(getattr(Path, name), left))
            try:
                clean(made.log, made.clock.time_ms())
                is_over = True
            except Killed:
                pass
        made.reopen(is_clean=False)
        made.check()
        leftovers = [path.name for path in (folder / "t-0").iterdir()]
        assert not [name for name in leftovers if name.endswith((".cleaned", ".swap"))]
        clean(made.log, made.clock.time_ms())
        made.check()
        made.log.close()
        step += 1
    assert step > 5


def counted(does: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def do(*args: Any, **more: Any) -> Any:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return does(*args, **more)

    return do


def test_readers_go_on_meanwhile(tmp_path: Path) -> None:
    """B-C5: they see whole batches in ascending offsets, each record as it was written."""
    made = filled(tmp_path, 200)
    stop, faults = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            try:
                records = [each for found in made.log.batches() for each in found.records()]
                offsets = [each.offset for each in records]
                assert offsets == sorted(set(offsets))
                known = len(made.written)
                for each in records:
                    if each.offset < known:
                        assert made.written[each.offset][1:] == (each.key, each.value)
            except BaseException as error:
                faults.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    try:
        for round in range(10):
            clean(made.log, made.clock.time_ms())
            for number in range(40):
                made.append([(b"k%d" % (number % 7), b"%d" % round)])
    finally:
        stop.set()
        for each in readers:
            each.join(30)
    assert faults == []
    made.check()
    made.log.close()


def push(made: CompactedLog, count: int = 20) -> None:
    """So much that what was written before is no longer in the active segment."""
    for number in range(count):
        made.append([(b"other", b"%d" % number * 40)])


@pytest.mark.parametrize("is_open", [False, True])
def test_an_aborted_value_replaces_nothing(directory: Path | None, is_open: bool) -> None:
    """B-C4.6: nor does one whose transaction is still open."""
    made = CompactedLog(directory)
    made.append([(b"key", b"committed")])
    made.append([(b"key", b"aborted")], 1, is_transactional=True)
    if is_open:
        push(made)
        clean(made.log, made.clock.time_ms())
        made.check()
    made.end(1, is_commit=False)
    push(made)
    clean(made.log, made.clock.time_ms())
    made.check()
    assert made.log.cleaned_offset > 20
    assert made.read_committed()[b"key"] == b"committed"
    made.log.close()


def test_what_a_producer_deletes_after_an_abort_stays_deleted(directory: Path | None) -> None:
    """B-C4.6: a transaction that was aborted before the dirty part says nothing of later ones."""
    made = CompactedLog(directory)
    made.append([(b"key", b"old")])
    made.append([(b"x", b"aborted")], 1, is_transactional=True)
    made.end(1, is_commit=False)
    push(made)
    clean(made.log, made.clock.time_ms())
    assert [each.producer_id for each in made.log.aborted] == [1]
    made.append([(b"key", None)], 1, is_transactional=True)
    made.end(1, is_commit=True)
    for _ in range(3):
        push(made)
        clean(made.log, made.clock.time_ms())
        made.check()
        made.clock.advance(1001)
    offsets = [each.offset for batch in made.log.batches() for each in batch.records()]
    assert offsets[0] > 0
    made.log.close()


def test_the_last_batch_of_a_producer_stays_as_a_header(directory: Path | None) -> None:
    """B-C4.6: a follower that copies the log, or a restart, learns its next sequence from it."""
    made = CompactedLog(directory)
    for value in (b"1", b"2"):
        made.append([(b"key", value)], producer=10)
    made.append([(b"key", b"3")])
    push(made)
    clean(made.log, made.clock.time_ms())
    made.check()
    found = [each for each in made.log.batches() if each.producer_id == 10]
    assert [(each.base_offset, each.base_sequence, each.record_count) for each in found] == [
        (1, 1, 0)
    ]
    made.log.close()
