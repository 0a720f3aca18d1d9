"""Logs in files across clean ends and crashes (B-C6.7, B-C8; LogLoaderTest, LogSegmentTest)."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.log.log import Log, LogError
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.log.segments.file_segment import FileSegment
from fastprod.broker.threads.clock import FakeClock
from support.broker.log_batches import TIME, batch, contents, open_log, sequenced

MARKER = ".kafka_cleanshutdown"
SEGMENT_BYTES = 1000


def write(directory: Path, count: int = 30, **settings: Any) -> Log:
    """A log of several segments, two records a batch; the caller closes it, or lets it crash."""
    log = reopen(directory, **settings)
    for i in range(count):
        log.append(sequenced_at(i), i // 10)
    return log


def sequenced_at(i: int) -> bytearray:
    return batch(
        2, timestamp=TIME + i, value=b"%d" % i, producer_id=5, producer_epoch=0, base_sequence=2 * i
    )


def reopen(directory: Path, **settings: Any) -> Log:
    return open_log(
        directory, **{"segment_bytes": SEGMENT_BYTES, "index_interval_bytes": 100, **settings}
    )


def expected(batches: int) -> list[tuple[int, bytes]]:
    return [(2 * i + j, b"%d-%d" % (i, j)) for i in range(batches) for j in range(2)]


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted((directory / "t-0").glob(f"*{suffix}"))


def must_hold(log: Log, batches: int) -> None:
    """Records, indexes, epochs and producers are those of so many batches."""
    assert contents(log) == expected(batches)
    assert log.log_end_offset == 2 * batches
    for i in range(batches):
        assert log.offset_for_timestamp(TIME + i) == (2 * i, TIME + i)
        (part, *_) = log.read(2 * i + 1, 0, True)
        assert int.from_bytes(bytes(part)[:8], "big") == 2 * i
    assert log.offset_of_max_timestamp() == (2 * batches - 2, TIME + batches - 1)
    assert log.latest_epoch == (batches - 1) // 10
    assert log.append(sequenced_at(batches - 1), 9).duplicate
    with pytest.raises(LogError, match=f"expected {2 * batches}"):
        log.append(sequenced_at(batches + 1), 9)
    assert log.append(sequenced_at(batches), 9).base_offset == 2 * batches


def test_a_log_that_was_closed_comes_back_as_it_was(tmp_path: Path) -> None:
    """B-C8.2, testCleanShutdownFile, testLogRecoversToCorrectOffset."""
    write(tmp_path).close()
    assert (tmp_path / MARKER).read_text() == "0\n1\nt-0 - 0 60\n"
    log = reopen(tmp_path)
    must_hold(log, 30)
    log.close()
    assert (tmp_path / MARKER).read_text() == "0\n1\nt-0 - 0 62\n"
    must_hold_after(reopen(tmp_path), 31)


def must_hold_after(log: Log, batches: int) -> None:
    assert contents(log) == expected(batches)


def test_a_log_that_crashed_comes_back_whole(tmp_path: Path) -> None:
    """B-C8.3, testProducerSnapshotsRecoveryAfterUncleanShutdown."""
    log = write(tmp_path)
    must_hold(reopen(tmp_path), 30)
    assert log.log_end_offset == 60


def test_after_a_crash_and_a_clean_end_every_timestamp_is_found(tmp_path: Path) -> None:
    """B-C3.3: what a recovery knows of a closed segment's timestamps survives the next restart."""
    settings = {"index_interval_bytes": 300}
    largest = [segment.max_timestamp for segment in write(tmp_path, 60, **settings)._segments]
    assert len(largest) > 4
    reopen(tmp_path, **settings).close()
    log = reopen(tmp_path, **settings)
    assert [segment.max_timestamp for segment in log._segments] == largest
    must_hold(log, 60)


@pytest.mark.parametrize("timestamp", [TIME, None])
@pytest.mark.parametrize("appended", [1, 9])
def test_a_clean_restart_walks_no_further_than_from_the_last_entry_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appended: int, timestamp: int | None
) -> None:
    """B-C8.2: however many clean ends came before, and whatever was appended between them."""

    def one_more(i: int) -> bytearray:
        return batch(timestamp=-1 if timestamp is None else timestamp + i)

    walked: list[int] = []
    batches_from = FileSegment.batches_from

    def count(self: FileSegment, position: int, *arguments: Any) -> Any:
        for found in batches_from(self, position, *arguments):
            walked.append(found[0].size_bytes)
            yield found

    settings = {"index_interval_bytes": 1000, "segment_bytes": 1_000_000}
    log = reopen(tmp_path, **settings)
    for i in range(60):
        log.append(one_more(i), 0)
    monkeypatch.setattr(FileSegment, "batches_from", count)
    for _ in range(6):
        end = log.log_end_offset
        log.close()
        walked.clear()
        log = reopen(tmp_path, **settings)
        # The first batch of the segment, and those from the last entry on.
        assert sum(walked) <= 2 * len(one_more(0)) + 1000
        assert log.log_end_offset == end
        for i in range(end, end + appended):
            log.append(one_more(i), 0)
    for i in range(log.log_end_offset if timestamp is not None else 0):
        assert log.offset_for_timestamp(TIME + i) == (i, TIME + i)
    log.close()


def test_a_marker_that_knows_another_end_is_not_believed(tmp_path: Path) -> None:
    write(tmp_path).close()
    for line in ("t-0 - 0 58", "t-0 - 0 62", "t-0 - 0", f"t-0 {uuid.uuid4()} 10 60"):
        (tmp_path / MARKER).write_text(f"0\n1\n{line}\n")
        assert contents(reopen(tmp_path)) == expected(30)
    must_hold(reopen(tmp_path), 30)


def test_a_log_that_rolled_since_its_clean_end_is_walked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C8.2, B-C8.3."""
    write(tmp_path, 1).close()
    log = reopen(tmp_path)
    for i in range(1, 30):
        log.append(sequenced_at(i), 2)
    walks: list[int] = []
    batches_from = FileSegment.batches_from

    def count(self: FileSegment, position: int, *arguments: Any) -> Any:
        walks.append(self.base_offset)
        return batches_from(self, position, *arguments)

    monkeypatch.setattr(FileSegment, "batches_from", count)
    again = reopen(tmp_path)
    # For its batches, and for their producers.
    assert walks.count(log._segments[-1].base_offset) <= 2
    assert contents(again) == expected(30)


def test_a_marker_does_not_stand_for_other_records_up_to_the_same_end(tmp_path: Path) -> None:
    """B-C8.2: neither after a truncation nor after a loss."""
    write(tmp_path).close()
    log = reopen(tmp_path)
    log.truncate_to(40)
    assert (tmp_path / MARKER).read_text() == "0\n0\n"
    log.append(batch(20), 3)
    assert log.log_end_offset == 60
    log.close()
    os.truncate(tail(tmp_path), tail(tmp_path).stat().st_size - 1)
    assert reopen(tmp_path).log_end_offset < 60
    assert (tmp_path / MARKER).read_text() == "0\n0\n"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_bytes(bytes(240)),
        lambda path: path.write_bytes(b"\xff" * 24),
        lambda path: path.write_bytes(path.read_bytes() * 2),
    ],
    ids=["missing", "empty", "odd size", "zeros", "beyond the log", "not ascending"],
)
def test_a_damaged_index_is_built_anew(
    tmp_path: Path, clean: bool, suffix: str, damage: Callable[[Path], object]
) -> None:
    """B-C3.5, B-C8.5, testCorruptIndexRebuild; "beyond the log" is an index newer than its log."""
    log = write(tmp_path)
    if clean:
        log.close()
    sound = {}
    if clean:
        sound = {path: path.read_bytes() for path in files(tmp_path, suffix)}
    for path in files(tmp_path, suffix):
        damage(path)
    again = reopen(tmp_path)
    for path, data in sound.items():
        if data:
            assert path.read_bytes() == data
    must_hold(again, 30)


def test_what_a_deletion_left_is_removed(tmp_path: Path) -> None:
    """B-C1.2, B-C8.5, testOpenDeletesObsoleteFiles."""
    write(tmp_path).close()
    folder = tmp_path / "t-0"
    left = [
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "offsets-checkpoint.tmp",
    ]
    for name in left:
        (folder / name).write_bytes(b"left")
    must_hold(reopen(tmp_path), 30)
    assert [name for name in left if (folder / name).exists()] == []


@pytest.mark.parametrize("gone_count", [1, 2, 3])
def test_a_loss_of_the_tail_that_a_crash_cut_short_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone_count: int
) -> None:
    """B-C5.2, B-C8.3: also in a log that had ended well, and of which some segments are gone."""
    write(tmp_path, 60).close()
    log = reopen(tmp_path)
    assert len(log._segments) > gone_count + 1
    delete = FileSegment.delete
    gone: list[FileSegment] = []

    def delete_some(segment: FileSegment) -> None:
        if len(gone) == gone_count:
            raise KeyboardInterrupt
        gone.append(segment)
        delete(segment)

    monkeypatch.setattr(FileSegment, "delete", delete_some)
    with pytest.raises(KeyboardInterrupt):
        log.truncate_to(1)
    monkeypatch.undo()
    again = reopen(tmp_path)
    found = [offset for offset, _ in contents(again)]
    assert found == list(range(again.log_end_offset))
    assert len(gone) == gone_count


def tail(directory: Path) -> Path:
    return files(directory, ".log")[-1]


def last_batches(path: Path) -> tuple[int, int]:
    """(position of the last batch but one, of the last) of a file."""
    data, starts, at = path.read_bytes(), [], 0
    while at < len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return starts[-2], starts[-1]


def test_a_tail_torn_at_any_byte_is_cut_to_the_last_whole_batch(tmp_path: Path) -> None:
    """B-C8.4: cut at each byte of the last two batches, headers included."""
    crashed = tmp_path / "crashed"
    write(crashed, 4)
    before, last = last_batches(tail(crashed))
    size = tail(crashed).stat().st_size
    for cut in range(before, size):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(crashed, copy)
        os.truncate(tail(copy), cut)
        log = reopen(copy)
        kept = 2 if cut < last else 3
        assert contents(log) == expected(kept), cut
        assert tail(copy).stat().st_size == (before if cut < last else last)
        assert log.append(sequenced_at(kept - 1), 0).duplicate
        assert log.append(sequenced_at(kept), 0).base_offset == 2 * kept
        shutil.rmtree(copy)


def flip(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 0x10
        path.write_bytes(data)

    return damage


def append(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(path.read_bytes() + data)

    return damage


GARBAGE = {
    "zeros": bytes(5000),
    "few zeros": bytes(7),
    "noise": os.urandom(300),
    "a length past the end": (60).to_bytes(8, "big") + b"\x00\x00\xff\xff" + bytes(100),
    "a length of 0": (60).to_bytes(8, "big") + bytes(100),
    "a negative length": (60).to_bytes(8, "big") + b"\xff" * 100,
    "a batch of the wrong offset": bytes(batch(2)),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_what_follows_the_last_batch_is_cut(tmp_path: Path, garbage: bytes) -> None:
    """B-C8.4, B-G4.23: zeros, garbage, lengths that point nowhere."""
    write(tmp_path)
    size = tail(tmp_path).stat().st_size
    append(garbage)(tail(tmp_path))
    log = reopen(tmp_path)
    assert tail(tmp_path).stat().st_size == size
    must_hold(log, 30)


@pytest.mark.parametrize("at", [7, 10, 16, 20, 30, 61, 70, -1])
def test_a_flipped_bit_ends_the_log_and_later_segments_go(tmp_path: Path, at: int) -> None:
    """B-C8.3, B-C8.4, testCorruptLog, testRecoveryWithCorruptMessage."""
    write(tmp_path)
    logs = files(tmp_path, ".log")
    assert len(logs) == 3
    position = last_batches(logs[1])[1]
    flip(position + at if at > 0 else logs[1].stat().st_size - 1)(logs[1])
    following = int(logs[2].stem)
    log = reopen(tmp_path)
    assert files(tmp_path, ".log") == logs[:2]
    assert all(int(path.stem) < following for path in files(tmp_path, ".index"))
    assert all(int(path.stem) <= following for path in files(tmp_path, ".snapshot"))
    must_hold(log, following // 2 - 1)


def test_garbage_inside_the_log_ends_it(tmp_path: Path) -> None:
    """B-C8.3: later segments go even though their offsets would follow."""
    write(tmp_path)
    logs = files(tmp_path, ".log")
    append(b"garbage")(logs[0])
    log = reopen(tmp_path)
    assert files(tmp_path, ".log") == logs[:1]
    must_hold(log, int(logs[1].stem) // 2)


def test_a_missing_segment_ends_the_log(tmp_path: Path) -> None:
    write(tmp_path)
    logs = files(tmp_path, ".log")
    logs[2].unlink()
    log = reopen(tmp_path)
    assert contents(log) == expected(int(logs[2].stem) // 2)


def test_segments_below_the_recovery_point_are_not_walked(tmp_path: Path) -> None:
    """B-C8.3, testRecoverOnlyLastSegment: what was fsynced is taken as it is."""
    write(tmp_path, sync="batch").flush()
    logs = files(tmp_path, ".log")
    flip(70)(logs[0])
    flip(last_batches(logs[-1])[1] + 70)(logs[-1])
    log = reopen(tmp_path)
    assert log.log_end_offset == 58
    assert files(tmp_path, ".log") == logs


def test_the_start_of_the_log_survives_a_crash(tmp_path: Path) -> None:
    log = write(tmp_path)
    log.delete_records(15)
    again = reopen(tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (15, 60)
    again.delete_records(60)
    assert again.size_bytes == 0
    last = reopen(tmp_path)
    assert (last.log_start_offset, last.log_end_offset) == (60, 60)
    # No batch is left, but its producer is known.
    assert last.append(sequenced_at(29), 9).duplicate
    assert last.append(sequenced_at(30), 9).base_offset == 60
    assert last.log_start_offset == 60


def test_segments_that_a_crash_left_below_the_start_are_removed(tmp_path: Path) -> None:
    write(tmp_path).close()
    PartitionFolder(tmp_path, "t", 0).write_offsets(31, 0, sync=False)
    log = reopen(tmp_path)
    assert log.log_start_offset == 31
    assert int(files(tmp_path, ".log")[0].stem) <= 31
    assert int(files(tmp_path, ".log")[1].stem) > 31


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: b"", lambda data: data[:-1] + b"x", lambda data: b"ab"],
    ids=["truncated", "empty", "corrupt", "short"],
)
def test_a_damaged_snapshot_is_deleted_and_an_older_one_tried(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """B-C6.7, ProducerStateManagerTest."""
    write(tmp_path).close()
    snapshots = files(tmp_path, ".snapshot")
    assert len(snapshots) > 1
    snapshots[-1].write_bytes(damage(snapshots[-1].read_bytes()))
    log = reopen(tmp_path)
    assert not snapshots[-1].exists()
    must_hold(log, 30)


def test_without_any_snapshot_producers_come_from_the_batches(tmp_path: Path) -> None:
    write(tmp_path)
    for path in files(tmp_path, ".snapshot"):
        path.unlink()
    log = reopen(tmp_path)
    for i in range(25, 30):
        assert log.append(sequenced_at(i), 9).duplicate


def test_after_a_clean_end_one_batch_is_known_again(tmp_path: Path) -> None:
    """B-C6.7: the window is 1 until it fills."""
    write(tmp_path).close()
    log = reopen(tmp_path)
    assert log.append(sequenced_at(29), 9).base_offset == 58
    with pytest.raises(LogError) as caught:
        log.append(sequenced_at(28), 9)
    assert caught.value.error_code == 45


@pytest.mark.parametrize(
    "text", [None, "", "0\n2\n0 0\n1 20\n", "0\n3\n0 0\n", "0\n1\nx y\n", "1\n1\n0 0\n"]
)
def test_epochs_are_read_from_the_batches_when_their_file_is_bad(
    tmp_path: Path, text: str | None
) -> None:
    write(tmp_path)
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n3\n0 0\n1 20\n2 40\n"
    path.unlink() if text is None else path.write_text(text)
    log = reopen(tmp_path)
    assert [log.end_offset_for_epoch(epoch)[1] for epoch in range(3)] == [20, 40, 60]


def test_an_append_that_does_not_fit_on_the_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-D1 KAFKA_STORAGE_ERROR: nothing half-written is served, and no append follows."""
    log = write(tmp_path, 29)
    size = tail(tmp_path).stat().st_size
    real = os.pwrite

    def full(fd: int, data: memoryview, at: int) -> int:
        if len(data) < 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[:40], at)

    monkeypatch.setattr(os, "pwrite", full)
    for _ in range(2):
        with pytest.raises(LogError, match="No space left on device") as caught:
            log.append(sequenced_at(29), 2)
        assert caught.value.error_code == 56
    monkeypatch.undo()
    assert tail(tmp_path).stat().st_size == size
    assert contents(log) == expected(29)
    with pytest.raises(LogError, match="takes no more records"):
        log.append(sequenced_at(29), 2)
    with pytest.raises(LogError, match="takes no more records"):
        log.flush()
    log.close()
    must_hold(reopen(tmp_path), 29)


def test_a_failed_roll_refuses_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-D1 KAFKA_STORAGE_ERROR."""
    log = write(tmp_path, 1)

    def fail(*_: object) -> None:
        raise OSError(errno.EDQUOT, "quota")

    monkeypatch.setattr(PartitionFolder, "new_segment", fail)
    count = 1
    while log.size_bytes + len(sequenced_at(count)) <= SEGMENT_BYTES:
        log.append(sequenced_at(count), 0)
        count += 1
    with pytest.raises(LogError, match=r"cannot roll .* quota") as caught:
        log.append(sequenced_at(count), 0)
    assert caught.value.error_code == 56
    assert contents(log) == expected(count)


@pytest.mark.parametrize(
    ("settings", "synced"),
    [
        ({"sync": "never"}, 0),
        ({"sync": "batch"}, 5),
        ({"sync": "interval"}, 0),
    ],
)
def test_files_are_fsynced_as_often_as_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], synced: int
) -> None:
    """B-C8.1: what comes by the clock is the upkeep's: else whoever appends waits for the disk."""
    clock = FakeClock(TIME)
    log = open_log(tmp_path, clock, **settings)
    log.append(batch(), 0)
    synced_paths: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced_paths.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(5):
        clock.advance(1000)
        log.append(batch(), 0)
    assert [path[-4:] for path in synced_paths if path.endswith(".log")] == [".log"] * synced
    del synced_paths[:]
    log.flush()
    log.close()
    assert any(path.endswith(".log") for path in synced_paths) == (settings["sync"] != "batch")


def test_an_idle_or_unchanged_log_writes_nothing(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    assert list((tmp_path / "t-0").iterdir()) == []
    write(tmp_path).close()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "t-0").iterdir()}
    log = reopen(tmp_path)
    log.read(0, 1000, True)
    log.close()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "t-0").iterdir()} == before


def test_files_of_another_topic_of_the_same_name_are_refused(tmp_path: Path) -> None:
    """partition.metadata (B-C1.3)."""
    mine, other = uuid.uuid4(), uuid.uuid4()

    def opened(topic_id: uuid.UUID) -> Log:
        return Log(tmp_path, "t", 0, LogConfig(), FakeClock(TIME), topic_id=topic_id)

    opened(mine).close()
    text = (tmp_path / "t-0" / "partition.metadata").read_text()
    assert text.startswith("version: 0\ntopic_id: ")
    opened(mine).close()
    with pytest.raises(ValueError, match=str(mine)):
        opened(other)


def test_a_reader_survives_the_end_of_its_segment(tmp_path: Path) -> None:
    log = write(tmp_path)
    segment = log._segments[0]
    log.delete_records(60)
    assert segment.read(0, 10_000, True, 60)
    log.append(sequenced(1, 0), 9)
    assert not files(tmp_path, f"{0:020d}.log")


def test_a_log_whose_file_is_gone_says_so(tmp_path: Path) -> None:
    write(tmp_path).close()
    log = reopen(tmp_path)
    log.close()
    tail(tmp_path).unlink()
    with pytest.raises(LogError, match="cannot be read") as caught:
        log.read(59, 1000, True)
    assert caught.value.error_code == 56


def test_a_checkpoint_is_a_text_that_is_replaced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C1.4, B-C1.3: version, number of entries, an entry a line; synced before it is named."""
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(fd: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{fd}').readlink().name}")
        fsync(fd)

    def note_replace(self: Path, target: Path) -> Path:
        steps.append(f"replace {target.name}")
        return replace(self, target)

    log = write(tmp_path, sync="batch")
    assert path.read_text() == "0\n3\n0 0\n1 20\n2 40\n"
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    log.append(sequenced_at(30), 3)
    assert path.read_text() == "0\n4\n0 0\n1 20\n2 40\n3 60\n"
    assert steps[:2] == [f"sync {path.name}.tmp", f"replace {path.name}"]
    assert not list(path.parent.glob("*.tmp"))
