"""What a compacted log must still say: the newest committed value of each key, and nothing new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastprod._core.log.batch_validator import inspect
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.threads.clock import FakeClock
from support.broker.log_batches import TIME, encoded

Record = tuple[int, bytes, bytes | None]
"""Offset, key, value."""

ABORT = 0


class CompactedLog:
    """A log with `cleanup.policy=compact`, and what was appended to it.

    Args:
        directory: of its files; None: in memory.
        settings: of the log.

    Attributes:
        written: every record.
        aborted: offsets of records whose transactions were aborted.
        undecided: those of producers whose transactions are open.
        sequences: the next one of each producer.
    """

    def __init__(self, directory: Path | None, **settings: Any) -> None:
        self.clock = FakeClock(TIME)
        self.directory = directory
        plain = {"segment_bytes": 700, "compact": True, "retention_ms": -1}
        small = {"min_cleanable_dirty_ratio": 0.01, "delete_retention_ms": 1000}
        self.config = LogConfig(**{**plain, **small, **settings})
        self.log = self._open()
        self.written: list[Record] = []
        self.aborted: set[int] = set()
        self.undecided: dict[int, list[Record]] = {}
        self.sequences: dict[int, int] = {}

    def _open(self) -> Log:
        return Log(self.directory, "t", 0, self.config, self.clock)

    def reopen(self, is_clean: bool = True) -> None:
        """As after a stop, or after kill -9."""
        if self.directory is not None:
            if is_clean:
                self.log.close()
            self.log = self._open()

    def append(
        self,
        records: list[tuple[bytes, bytes | None]],
        producer: int = -1,
        is_transactional: bool = False,
        codec: str = "none",
    ) -> None:
        fields: dict[str, Any] = {}
        if producer >= 0:
            sequence = self.sequences.get(producer, 0)
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer] = sequence + len(records)
        now_ms = self.clock.time_ms()
        sent = [(now_ms, key, value) for key, value in records]
        batch = encoded(sent, codec, transactional=is_transactional, **fields)
        info = inspect(batch, 0)
        base = self.log.append(batch, 0, info, True).base_offset
        new = [(base + place, key, value) for place, (key, value) in enumerate(records)]
        self.written += new
        if is_transactional:
            self.undecided.setdefault(producer, []).extend(new)

    def end(self, producer: int, is_commit: bool) -> None:
        """End a producer's transaction."""
        self.log.append_marker(EndTransactionMarker(Producer(producer, 0), 0, is_commit), 0)
        records = self.undecided.pop(producer, [])
        if not is_commit:
            self.aborted |= {offset for offset, _, _ in records}

    def committed(self) -> dict[bytes, bytes | None]:
        """The newest value of each key, as it was written, but for what is undecided."""
        stable = self.log.last_stable_offset
        return {
            key: value
            for offset, key, value in self.written
            if offset < stable and offset not in self.aborted
        }

    def check(self) -> None:
        """The log says what it said, but for what newer records replace."""
        said = {offset: (key, value) for offset, key, value in self.written}
        left: list[Record] = []
        for batch in self.log.batches():
            if batch.is_control:
                continue
            for each in batch.records():
                assert said[each.offset] == (each.key, each.value)
                left.append((each.offset, each.key or b"", each.value))
        offsets = [offset for offset, _, _ in left]
        assert offsets == sorted(set(offsets))
        seen = self.read_committed()
        # A tombstone may be gone.
        assert {key: value for key, value in seen.items() if value is not None} == {
            key: value for key, value in self.committed().items() if value is not None
        }
        open_offsets = {offset for records in self.undecided.values() for offset, _, _ in records}
        assert open_offsets <= set(offsets)

    def read_committed(self) -> dict[bytes, bytes | None]:
        """The newest value of each key, as a reader of committed records has it."""
        log = self.log
        stable = log.last_stable_offset
        aborted = sorted(log.aborted_transactions(log.log_start_offset, stable), key=lambda e: e[1])
        skipped: set[int] = set()
        found: dict[bytes, bytes | None] = {}
        for batch in log.batches():
            if batch.base_offset >= stable:
                break
            while aborted and aborted[0].first_offset < batch.next_offset:
                skipped.add(aborted.pop(0).producer_id)
            if batch.is_control:
                marker = batch.end_marker()
                if marker is not None and marker.kind == ABORT:
                    skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                for each in batch.records():
                    found[each.key or b""] = each.value
        return found
