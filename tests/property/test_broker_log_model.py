"""A log in memory and one in files against a list, across crashes and torn tails (broker C)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fastprod.broker.log.log import Log, LogError, OffsetOutOfRange
from fastprod.broker.threads.clock import FakeClock
from support.broker.log_batches import TIME, encoded, open_log
from support.processes.scale import examples

SETTINGS: dict[str, Any] = {"segment_bytes": 600, "index_interval_bytes": 150}
MIB = 1 << 20


class Kept(NamedTuple):
    """One batch of the model."""

    base_offset: int
    timestamps: tuple[int, ...]
    producer_id: int
    sequence: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.timestamps)

    def data(self) -> bytearray:
        records = [
            (TIME + ms, b"k", b"%d" % (self.base_offset + i))
            for i, ms in enumerate(self.timestamps)
        ]
        fields = {}
        if self.producer_id >= 0:
            fields = {
                "producer_id": self.producer_id,
                "producer_epoch": 0,
                "base_sequence": self.sequence,
            }
        return encoded(records, "lz4" if self.base_offset % 3 == 0 else "none", **fields)


class LogMachine(RuleBasedStateMachine):
    """The model: batches in a list, and an offset that the log starts at."""

    def __init__(self) -> None:
        super().__init__()
        self.directory: Path | None = None
        self.clock = FakeClock(TIME)
        self.batches: list[Kept] = []
        self.start = 0
        self.end = 0

    @initialize(in_files=st.booleans())
    def open(self, in_files: bool) -> None:
        if in_files:
            self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.log = open_log(self.directory, self.clock, **SETTINGS)

    def teardown(self) -> None:
        if self.directory is not None:
            self.log.close()
            shutil.rmtree(self.directory)

    def last_of(self, producer_id: int) -> Kept | None:
        return next(
            (kept for kept in reversed(self.batches) if kept.producer_id == producer_id), None
        )

    @rule(
        timestamps=st.lists(st.integers(0, 1000), min_size=1, max_size=4),
        producer_id=st.integers(-1, 2),
    )
    def append(self, timestamps: list[int], producer_id: int) -> None:
        last = self.last_of(producer_id)
        sequence = -1 if producer_id < 0 else 0
        if producer_id >= 0 and last is not None:
            sequence = last.sequence + len(last.timestamps)
        kept = Kept(self.end, tuple(timestamps), producer_id, sequence)
        info = self.log.append(kept.data(), 0)
        assert (info.base_offset, info.last_offset) == (self.end, kept.end_offset - 1)
        assert not info.duplicate
        self.batches.append(kept)
        self.end = kept.end_offset

    @rule(producer_id=st.integers(0, 2))
    def repeat(self, producer_id: int) -> None:
        last = self.last_of(producer_id)
        if last is not None:
            info = self.log.append(last.data(), 0)
            assert (info.base_offset, info.duplicate) == (last.base_offset, True)

    @rule(producer_id=st.integers(0, 2))
    def skip(self, producer_id: int) -> None:
        last = self.last_of(producer_id)
        if last is not None:
            wrong = last._replace(sequence=last.sequence + len(last.timestamps) + 1)
            with pytest.raises(LogError, match="expected"):
                self.log.append(wrong.data(), 0)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        assert self.log.delete_records(self.start) == self.start

    def lose(self, offset: int) -> None:
        self.batches = [kept for kept in self.batches if kept.end_offset <= offset]

    @precondition(lambda self: self.start == 0 and self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.log.truncate_to(offset)
        self.lose(offset)
        self.end = self.batches[-1].end_offset if self.batches else 0

    @precondition(lambda self: self.directory is not None)
    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean:
            self.log.close()
        self.log = open_log(self.directory, self.clock, **SETTINGS)

    @precondition(lambda self: self.directory is not None and self.start == 0)
    @rule(cut=st.integers(1, 300), tail=st.binary(max_size=80), zeros=st.integers(0, 100))
    def tear(self, cut: int, tail: bytes, zeros: int) -> None:
        """B-C8.4: what was not fsynced is cut anywhere, and followed by anything."""
        assert self.directory is not None
        logs = sorted(self.directory.glob("t-0/*.log"))
        (self.directory / "t-0" / "offsets-checkpoint").unlink(missing_ok=True)
        if not logs:
            return
        path = logs[-1]
        before = path.read_bytes()
        torn = before[: max(len(before) - cut, 0)] + b"\0" * zeros + b"\xff" + tail
        path.write_bytes(torn)
        position = 0
        base = int(path.stem)
        self.end = base
        for kept in [kept for kept in self.batches if kept.base_offset >= base]:
            position += len(kept.data())
            # What was cut off may have come back by chance: records end with a zero.
            if torn[:position] == before[:position]:
                self.end = kept.end_offset
        self.lose(self.end)
        self.log = open_log(self.directory, self.clock, **SETTINGS)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        records = [
            (kept.base_offset + i, TIME + ms)
            for kept in self.batches
            for i, ms in enumerate(kept.timestamps)
        ]
        found = [
            (record.offset, record.timestamp, record.value)
            for batch in log.batches()
            for record in batch.records()
            if record.offset >= self.start
        ]
        live = [(offset, ms) for offset, ms in records if offset >= self.start]
        assert found == [(offset, ms, b"%d" % offset) for offset, ms in live]
        for ms in (TIME, TIME + 500, TIME + 1001):
            expected = next(((offset, at) for offset, at in live if at >= ms), None)
            assert log.offset_for_timestamp(ms) == expected
        largest = max(live, key=lambda pair: pair[1], default=None)
        assert log.offset_of_max_timestamp() == largest
        self.reads_the_right_batch(log)

    def reads_the_right_batch(self, log: Log) -> None:
        for kept in self.batches:
            offset = max(kept.base_offset, self.start)
            if offset < kept.end_offset:
                (part, *_) = log.read(offset, 0, True)
                assert int.from_bytes(bytes(part)[:8], "big") == kept.base_offset
        assert log.read(self.end, MIB, True) == []
        with pytest.raises(OffsetOutOfRange):
            log.read(self.end + 1, MIB, True)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=examples(60), stateful_step_count=25)


@settings(max_examples=examples(40))
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=30),
    offset=st.integers(0, 29),
    max_bytes=st.integers(0, 3000),
    at_least_one=st.booleans(),
    in_files=st.booleans(),
)
def test_a_read_is_the_longest_row_of_batches_that_fits(
    sizes: list[int], offset: int, max_bytes: int, at_least_one: bool, in_files: bool
) -> None:
    """B-C5.4."""
    offset = min(offset, len(sizes) - 1)
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(Path(folder) if in_files else None)
        sent = [encoded([(TIME, None, b"x" * size)]) for size in sizes]
        for data in sent:
            log.append(data, 0)
        expected = b""
        for data in sent[offset:]:
            if len(expected) + len(data) > max_bytes:
                break
            expected += data
        if at_least_one and not expected:
            expected = bytes(sent[offset])
        assert (
            b"".join(bytes(part) for part in log.read(offset, max_bytes, at_least_one)) == expected
        )
        log.close()
