"""One partition's log, in memory and in files: the same tests for both (B-C4 to B-C6, B-D3)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Buffer

from fastprod._core.records.record_reader import read_batches
from fastprod.broker.log.log import AppendInfo, InvalidBatch, Log, LogError, OffsetOutOfRange
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.threads.clock import FakeClock
from support.broker.log_batches import CODECS, TIME, batch, contents, encoded, open_log, sequenced
from support.oracle import record_batch as oracle
from support.processes.between_lines import BetweenLines

MIB = 1 << 20
FOLDER = "/broker/log/"


class LogMaker:
    """Opens the same partition again and again."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.clock = FakeClock(TIME)
        self.opened: list[Log] = []

    def __call__(self, **settings: Any) -> Log:
        log = open_log(self.directory, self.clock, **settings)
        self.opened.append(log)
        return log


@pytest.fixture(params=["memory", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> LogMaker:
    return LogMaker(tmp_path if request.param == "files" else None)


def joined(parts: list[Buffer]) -> bytes:
    return b"".join(bytes(part) for part in parts)


def offsets(parts: list[Buffer]) -> list[int]:
    return [found.base_offset for found in read_batches(joined(parts))]


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(LogError) as caught:
        call()
    assert str(caught.value) == caught.value.message != ""
    assert caught.value.record_errors == ()
    return caught.value.error_code


def test_batches_get_offsets_in_a_row_and_come_back_as_they_were(make: LogMaker) -> None:
    """B-C4.2, B-C2.1."""
    log = make()
    sent = [batch(count, value=b"%d" % count) for count in (3, 1, 2)]
    infos = [log.append(data, 4) for data in sent]
    assert infos[0] == AppendInfo(0, 2, -1, 0, False)
    assert [(info.base_offset, info.last_offset) for info in infos] == [(0, 2), (3, 3), (4, 5)]
    assert log.log_end_offset == log.high_watermark == log.last_stable_offset == 6
    assert log.size_bytes == sum(map(len, sent))
    got = oracle.decode_batches(joined(log.read(0, MIB, True)))
    assert [each.base_offset for each in got] == [0, 3, 4]
    assert {each.partition_leader_epoch for each in got} == {4}
    assert [value for _, value in contents(log)] == [b"3-0", b"3-1", b"3-2", b"1-0", b"2-0", b"2-1"]


def test_what_is_refused_changes_nothing(make: LogMaker) -> None:
    """B-C4.1."""
    log = make(max_message_bytes=1000)
    log.append(batch(), 0)
    with pytest.raises(InvalidBatch) as caught:
        log.append(batch(100), 0)
    assert caught.value.error_code == 10
    assert log.log_end_offset == 1
    assert log.append(batch(), 0).base_offset == 1


def test_a_batch_that_no_segment_holds_is_refused(make: LogMaker) -> None:
    """B-D1 RECORD_LIST_TOO_LARGE, B-C4.3."""
    log = make(segment_bytes=200)
    assert code_of(lambda: log.append(batch(20), 0)) == 18
    assert log.log_end_offset == 0


def test_an_offset_inside_a_batch_gives_the_whole_batch(make: LogMaker) -> None:
    """B-C5.1."""
    log = make()
    for _ in range(40):
        log.append(batch(5), 0)
    for offset in range(200):
        assert offsets(log.read(offset, MIB, True))[0] == offset - offset % 5


def test_only_offsets_of_the_log_are_read(make: LogMaker) -> None:
    """B-C5.2."""
    log = make()
    assert log.read(0, MIB, True) == []
    log.append(batch(2), 0)
    assert log.read(2, MIB, True) == []
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is out of range"):
            log.read(offset, MIB, True)


def test_a_bound_hides_what_is_not_wholly_below(make: LogMaker) -> None:
    """B-C5.3."""
    log = make()
    for _ in range(3):
        log.append(batch(2), 0)
    assert offsets(log.read(0, MIB, True, up_to=4)) == [0, 2]
    assert offsets(log.read(0, MIB, True, up_to=5)) == [0, 2]
    assert log.read(4, MIB, True, up_to=4) == []
    assert offsets(log.read(0, MIB, True, up_to=99)) == [0, 2, 4]


@pytest.mark.parametrize("size", [1, 3000, 40_000])
def test_a_limit_cuts_between_batches_and_the_first_may_be_larger(
    make: LogMaker, size: int
) -> None:
    """B-C5.4."""
    log = make()
    data = batch(value=b"x" * size)
    for _ in range(6):
        log.append(data[:], 0)
    assert offsets(log.read(1, 3 * len(data), True)) == [1, 2, 3]
    assert offsets(log.read(1, 3 * len(data) - 1, True)) == [1, 2]
    assert offsets(log.read(1, len(data) - 1, True)) == [1]
    assert log.read(1, len(data) - 1, False) == []
    assert offsets(log.read(1, 0, True)) == [1]
    assert offsets(log.read(1, len(data), False)) == [1]


def test_what_was_read_does_not_change_by_later_appends(make: LogMaker) -> None:
    log = make()
    log.append(batch(), 0)
    parts = log.read(0, MIB, True)
    before = joined(parts)
    for _ in range(200):
        log.append(batch(value=b"other"), 0)
    assert joined(parts) == before
    with pytest.raises(TypeError):
        memoryview(parts[0])[0] = 1


def test_many_tiny_batches_are_few_parts(make: LogMaker) -> None:
    """B-C5.5."""
    log = make()
    for _ in range(5000):
        log.append(batch(), 0)
    parts = log.read(0, MIB, True)
    assert len(parts) < 20
    assert offsets(parts) == list(range(5000))


def test_the_log_stamps_its_own_time_if_it_is_told_so(make: LogMaker) -> None:
    """B-C2.2."""
    log = make(log_append_time=True)
    make.clock.advance(55)
    assert log.append(batch(2, timestamp=7), 0).log_append_time_ms == TIME + 55
    (found,) = log.batches()
    assert found.is_log_append_time
    assert [record.timestamp for record in found.records()] == [TIME + 55] * 2
    assert log.offset_for_timestamp(TIME) == (0, TIME + 55)


def test_a_repeated_batch_is_answered_as_before_and_not_appended(make: LogMaker) -> None:
    """B-C6.2: five batches are known again, a sixth is out of order."""
    log = make()
    for i in range(6):
        log.append(sequenced(8, 2 * i, 2), 0)
    log.append(batch(), 0)
    for i in range(1, 6):
        info = log.append(sequenced(8, 2 * i, 2), 0)
        assert (info.base_offset, info.last_offset, info.duplicate) == (2 * i, 2 * i + 1, True)
    assert code_of(lambda: log.append(sequenced(8, 0, 2), 0)) == 45
    assert code_of(lambda: log.append(sequenced(8, 10, 1), 0)) == 45
    assert log.log_end_offset == 13


def test_a_repeated_batch_may_roll_a_segment_and_harms_nothing(make: LogMaker) -> None:
    """B-C6.4: the size is looked at first."""
    size = len(sequenced(8, 0))
    log = make(segment_bytes=2 * size)
    for sequence in (0, 1):
        log.append(sequenced(8, sequence), 0)
    before = joined(log.read(0, MIB, True))
    again = log.append(sequenced(8, 1), 0)
    assert (again.base_offset, again.duplicate, log.log_end_offset) == (1, True, 2)
    assert len(log._segments) == 2
    assert joined(log.read(0, MIB, True)) == before
    assert log.append(sequenced(8, 2), 0).base_offset == 2
    assert [value for _, value in contents(log)] == [b"value-0"] * 3


def test_the_window_of_known_batches_can_be_set(make: LogMaker) -> None:
    """B-C6.5."""
    log = make(producer_batches=1)
    log.append(sequenced(8, 0), 0)
    log.append(sequenced(8, 1), 0)
    assert log.append(sequenced(8, 1), 0).duplicate
    assert code_of(lambda: log.append(sequenced(8, 0), 0)) == 45


def test_a_segment_is_rolled_before_it_grows_too_large(make: LogMaker) -> None:
    """B-C4.3, B-C4.4."""
    data = batch(3)
    log = make(segment_bytes=3 * len(data))
    for _ in range(7):
        log.append(data[:], 0)
    assert [segment.base_offset for segment in log._segments] == [0, 9, 18]
    assert len(contents(log)) == 21


def test_a_read_goes_on_in_the_next_segments_and_leaves_no_batch_out(make: LogMaker) -> None:
    """B-C5.4: a fetch that waits for many bytes must not end where a segment does."""
    small, large = batch(2), batch(2, value=b"x" * 100)
    log = make(segment_bytes=len(small) + len(large))
    for _ in range(3):
        log.append(small[:], 0)
        log.append(large[:], 0)
    assert len(log._segments) == 3
    assert offsets(log.read(0, MIB, True)) == [0, 2, 4, 6, 8, 10]
    assert offsets(log.read(3, MIB, True, up_to=7)) == [2, 4]
    assert offsets(log.read(2, len(large) + len(small), True)) == [2, 4]
    # There is room for the small batch of the next segment, but not for the large one before it.
    assert offsets(log.read(0, 2 * len(small), True)) == [0]
    assert offsets(log.read(0, 1, True)) == [0]
    assert log.read(0, 1, False) == []


def test_a_segment_is_rolled_by_the_age_of_its_first_batch(make: LogMaker) -> None:
    """B-C4.4: by the timestamps; without them by the clock."""
    log = make(segment_ms=1000)
    for timestamp in (TIME, TIME + 1000, TIME + 1001, TIME + 500):
        log.append(batch(timestamp=timestamp), 0)
    assert [segment.base_offset for segment in log._segments] == [0, 2]
    make.clock.advance(5000)
    log.append(batch(timestamp=-1), 0)
    assert [segment.base_offset for segment in log._segments] == [0, 2, 4]


def test_jitter_makes_a_segment_age_earlier(make: LogMaker) -> None:
    log = make(segment_ms=1000, segment_jitter_ms=1000)
    log.append(batch(), 0)
    jitter_ms = log._segments[0].jitter_ms
    assert 0 <= jitter_ms < 1000
    log.append(batch(timestamp=TIME + 1001 - jitter_ms), 0)
    assert len(log._segments) == 2


def filled(make: LogMaker, count: int = 10, **settings: Any) -> Log:
    """Segments of one batch of two records, a second apart."""
    data = batch(2)
    log = make(segment_bytes=len(data), **settings)
    for i in range(count):
        log.append(batch(2, timestamp=TIME + 1000 * i), 0)
    make.clock.advance(9000)
    return log


def test_old_segments_are_dropped_as_a_whole(make: LogMaker) -> None:
    """B-C4.5: by time."""
    log = filled(make, retention_ms=4000)
    assert log.run_retention_now() == 5
    assert (log.log_start_offset, log.log_end_offset) == (10, 20)
    assert [offset for offset, _ in contents(log)] == list(range(10, 20))
    with pytest.raises(OffsetOutOfRange):
        log.read(9, MIB, True)
    make.clock.advance(60_000)
    assert log.run_retention_now() == 5
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert log.append(batch(), 0).base_offset == 20


def test_segments_above_the_size_are_dropped(make: LogMaker) -> None:
    """B-C4.5: by size, and never below what is to be kept."""
    size = len(batch(2))
    log = filled(make, retention_ms=-1, retention_bytes=3 * size + 1)
    assert log.run_retention_now() == 6
    assert log.log_start_offset == 12
    assert log.run_retention_now() == 0


def test_nothing_is_dropped_when_everything_is_to_be_kept(make: LogMaker) -> None:
    log = filled(make, retention_ms=-1)
    make.clock.advance(10**12)
    assert log.run_retention_now() == 0


def test_records_are_deleted_up_to_an_offset(make: LogMaker) -> None:
    """B-C4.5: the log's start moves at once, segments go when they lie below it."""
    log = filled(make, retention_ms=-1)
    assert log.delete_records(7) == 7
    assert log.log_start_offset == 7
    assert log.size_bytes == 7 * len(batch(2))
    assert offsets(log.read(7, MIB, True))[0] == 6
    assert log.delete_records(3) == 7
    assert log.offset_for_timestamp(0) == (7, TIME + 3000)
    assert log.append(batch(), 0).log_start_offset == 7
    for offset in (22, -1):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(offset)
    assert log.delete_records(21) == 21
    assert (log.size_bytes, log.log_end_offset) == (0, 21)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


def delete_some(log: Log) -> None:
    log.delete_records(7)


def drop_old(log: Log) -> None:
    log.config = LogConfig(retention_bytes=2 * len(batch(2)))
    assert log.run_retention_now() > 0


def lose_the_tail(log: Log) -> None:
    log.truncate_to(4)
    for _ in range(3):
        log.append(batch(value=b"later"), 1)


@pytest.mark.parametrize(
    "happens",
    [delete_some, drop_old, lose_the_tail],
)
def test_a_read_gives_the_offset_that_was_asked_for_or_says_that_it_is_gone(
    make: LogMaker, happens: Callable[[Log], None]
) -> None:
    """B-C5.2: whatever another thread does before any line of it; nothing where the end was
    lost.
    """
    for line in itertools.count(1):
        log = filled(make, 5, retention_ms=-1)
        meanwhile = BetweenLines(FOLDER, line, lambda log=log: happens(log))  # type: ignore[misc]
        parts = None
        with contextlib.suppress(OffsetOutOfRange):
            parts = meanwhile.within(lambda log=log: log.read(5, MIB, True))  # type: ignore[misc]
        if parts is not None and (parts or happens is not lose_the_tail):
            first = next(iter(read_batches(joined(parts))))
            assert first.base_offset <= 5 < first.next_offset, line
        log.delete()
        if not meanwhile.has_happened:
            assert line > 10
            break


def test_an_offset_by_timestamp_is_one_of_before_or_after(make: LogMaker) -> None:
    """B-D3."""
    for line in itertools.count(1):
        log = filled(make, 5, retention_ms=-1)
        before = log.offset_for_timestamp(TIME)
        meanwhile = BetweenLines(FOLDER, line, lambda log=log: delete_some(log))  # type: ignore[misc]
        found = meanwhile.within(lambda log=log: log.offset_for_timestamp(TIME))  # type: ignore[misc]
        assert found in (before, log.offset_for_timestamp(TIME)), line
        log.delete()
        if not meanwhile.has_happened:
            assert line > 10
            break


def test_an_offset_by_timestamp_is_found_while_the_end_of_an_index_is_replaced(
    tmp_path: Path,
) -> None:
    """B-D3, B-C3.3: after a clean end the first entry of the time index comes where the end's
    was.
    """

    def batch_at(i: int) -> bytearray:
        return batch(timestamp=TIME + 10 * i)

    def append_more(log: Log) -> None:
        for i in range(4, 8):
            log.append(batch_at(i), 0)

    for line in itertools.count(1):
        make = LogMaker(tmp_path / str(line))
        log = make(index_interval_bytes=300)
        for i in range(4):
            log.append(batch_at(i), 0)
        log.close()
        log = make(index_interval_bytes=300)
        meanwhile = BetweenLines(FOLDER, line, functools.partial(append_more, log))
        found = meanwhile.within(functools.partial(log.offset_for_timestamp, TIME + 30))
        assert found == (3, TIME + 30), line
        if not meanwhile.has_happened:
            assert line > 10
            break


def test_silent_producers_are_forgotten(make: LogMaker) -> None:
    """B-C6.6."""
    log = make(producer_id_expiration_ms=1000)
    log.append(sequenced(8, 0), 0)
    make.clock.advance(999)
    assert code_of(lambda: log.append(sequenced(8, 5), 0)) == 45
    make.clock.advance(1)
    assert log.append(sequenced(8, 5), 0).base_offset == 1
    make.clock.advance(1000)
    log.run_retention_now()
    assert log._producers is not None
    assert len(log._producers) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_timestamp_leads_to_the_first_record_that_is_not_older(
    make: LogMaker, codec: str
) -> None:
    """B-D3, testFindOffsetByTimestamp: inside batches, across segments, out of order."""
    log = make(segment_bytes=700, index_interval_bytes=0)
    stamps = [0, 3, 1, 8, 2, 9, 9, 4, 20, 15, 30, 30]
    for i in range(0, 12, 2):
        records = [(TIME + ms, b"k" * 40, b"v" * 60) for ms in stamps[i : i + 2]]
        log.append(encoded(records, codec), 0)
    for ms in range(-1, 32):
        expected = next(((i, TIME + at) for i, at in enumerate(stamps) if at >= ms), None)
        assert log.offset_for_timestamp(TIME + ms) == expected
    assert log.offset_of_max_timestamp() == (10, TIME + 30)
    log.delete_records(5)
    assert log.offset_for_timestamp(TIME + 3) == (5, TIME + 9)
    log.delete_records(11)
    assert log.offset_of_max_timestamp() == (11, TIME + 30)


def test_an_empty_log_has_no_timestamps(make: LogMaker) -> None:
    log = make()
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


def test_keys_are_asked_for_in_a_compacted_log(make: LogMaker) -> None:
    """B-C4.6."""
    log = make(compact=True)
    with pytest.raises(InvalidBatch) as caught:
        log.append(batch(key=None), 0)
    assert (caught.value.error_code, len(caught.value.record_errors)) == (87, 1)
    log.append(batch(), 0)


def test_leader_epochs_know_where_they_end(make: LogMaker) -> None:
    log = make()
    assert (log.latest_epoch, log.end_offset_for_epoch(0)) == (-1, (-1, -1))
    for epoch in (1, 1, 3):
        log.append(batch(), epoch)
    assert log.latest_epoch == 3
    assert log.end_offset_for_epoch(1) == (1, 2)
    assert log.end_offset_for_epoch(2) == (1, 2)
    assert log.end_offset_for_epoch(3) == (3, 3)
    assert log.end_offset_for_epoch(4) == (-1, -1)


@pytest.mark.parametrize("offset", range(13))
def test_a_tail_is_lost_from_the_batch_that_holds_the_offset(make: LogMaker, offset: int) -> None:
    """testTruncate: records, timestamps, epochs and producers are as if it had never been."""
    log = make(segment_bytes=250)
    for i in range(6):
        log.append(
            batch(
                2,
                timestamp=TIME + i,
                producer_id=8,
                producer_epoch=0,
                base_sequence=2 * i,
            ),
            i,
        )
    assert len(log._segments) > 1
    end = min(offset - offset % 2, 12)
    assert log.truncate_to(offset) == end == log.log_end_offset
    assert [found for found, _ in contents(log)] == list(range(end))
    assert log.latest_epoch == end // 2 - 1
    largest = log.offset_of_max_timestamp()
    assert largest == ((end - 2, TIME + end // 2 - 1) if end else None)
    info = log.append(sequenced(8, end, 2), 9)
    assert (info.base_offset, info.duplicate) == (end, False)


def test_a_log_that_discards_keeps_numbers_and_producers_only(tmp_path: Path) -> None:
    log = open_log(tmp_path, discard=True)
    with pytest.raises(InvalidBatch):
        log.append(bytearray(b"no batch"), 0)
    for i in range(3):
        assert log.append(sequenced(8, i), 0).base_offset == i
    assert log.append(sequenced(8, 2), 0).duplicate
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert log.read(3, MIB, True) == []
    with pytest.raises(OffsetOutOfRange):
        log.read(2, MIB, True)
    assert list(log.batches()) == []
    assert log.offset_for_timestamp(0) is None
    assert log.truncate_to(0) == 3
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_log_takes_nothing_more(make: LogMaker) -> None:
    log = make()
    log.append(batch(), 0)
    log.close()
    log.close()
    log.flush()
    assert code_of(lambda: log.append(batch(), 0)) == 56
    assert code_of(lambda: log.delete_records(1)) == 56


def test_a_deleted_log_is_gone(make: LogMaker) -> None:
    """B-C1.1; a topic of the same name starts without producers (B-C6.6)."""
    log = make()
    log.append(sequenced(8, 0), 0)
    parts = log.read(0, MIB, True)
    log.delete()
    log.delete()
    log.close()
    assert make.directory is None or list(make.directory.iterdir()) == []
    assert code_of(lambda: log.append(batch(), 0)) == 56
    assert len(joined(parts)) == len(batch())
    again = make()
    assert again.log_end_offset == 0
    assert again.append(sequenced(8, 77), 0).base_offset == 0


def test_a_read_never_finds_another_log_of_the_name(tmp_path: Path) -> None:
    """B-D4.3: its topic is deleted, and made again, before any line of the read."""

    def make_again(make: LogMaker, log: Log) -> None:
        log.delete()
        again = make(segment_bytes=200)
        for _ in range(7):
            again.append(batch(2, value=b"another"), 0)

    for line in itertools.count(1):
        make = LogMaker(tmp_path / str(line))
        log = filled(make, 5)
        meanwhile = BetweenLines(FOLDER, line, functools.partial(make_again, make, log))
        parts = meanwhile.within(functools.partial(log.read, 5, MIB, True))
        assert parts is not None
        assert b"another" not in joined(parts), line
        if not meanwhile.has_happened:
            assert line > 10
            break


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(OffsetOutOfRange(5, 1, 2)))
    assert (error.error_code, error.message) == (1, str(OffsetOutOfRange(5, 1, 2)))
    refused = pickle.loads(pickle.dumps(InvalidBatch(87, "no", [(1, "x")])))
    assert (refused.error_code, refused.message, refused.record_errors) == (87, "no", ((1, "x"),))
