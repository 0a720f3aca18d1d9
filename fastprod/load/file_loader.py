"""FileLoader: sends splits of files with a producer of this process, without Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError
from fastprod.load.rate_limiter import RateLimiter, payload_bytes
from fastprod.load.row_error import is_fault, row_at_fault
from fastprod.load.split_reader import SplitReader, header_field
from fastprod.producer import KafkaProducer

# How many bulks may wait for acknowledgements; their bytes are in the producer's memory.
_MOST_PENDING: Final = 64


class FileLoader:
    """Sends splits to a topic, and counts.

    Args:
        producer: the caller closes it.
        topic: topic to send to.
        reader: how splits are read.
        max_bytes_per_second: of keys and values; 0: no limit.

    Attributes:
        delivered_count: rows that Kafka has acknowledged.
        delivered_bytes: of their keys and values.
        failed_count: rows that were not delivered.
        first_error: the first row that itself is at fault, and why; else the first that failed.
            None: none has.
        done_bytes: of the splits that were read to their ends.

    Threads: one.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        topic: str,
        reader: SplitReader,
        max_bytes_per_second: int = 0,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._reader = reader
        self._is_limited = max_bytes_per_second > 0
        self._rate_limiter = RateLimiter(max_bytes_per_second)
        self._pending: deque[tuple[FileSplit, int, BulkFuture]] = deque()
        self.delivered_count = 0
        self.delivered_bytes = 0
        self.failed_count = 0
        self.first_error: str | None = None
        self._is_fault_known = False
        self.done_bytes = 0

    def load(self, splits: Iterable[FileSplit], watch: Callable[[], None]) -> None:
        """Send the rows of the splits, in their order; stop at the first bulk with failures.

        Args:
            splits: which.
            watch: called after each piece.

        Raises:
            InputError: a split cannot be read, or has an invalid partition or timestamp.
            KafkaError: the producer takes no more.

        Blocks: while the producer's memory is full; `finish` waits for the rest.
        """
        for split in splits:
            row = 0
            for batch in self._reader.batches(split):
                for piece in self._rate_limiter.pieces(batch.num_rows, self._limited_bytes(batch)):
                    rows = batch.slice(piece.start, piece.stop - piece.start)
                    try:
                        future = self._append(rows)
                    except ValueError as error:
                        raise InputError(f"{split}, from row {row:,} on: {error}") from error
                    self._pending.append((split, row, future))
                    row += rows.num_rows
                    self._settle()
                    watch()
                    if self.failed_count:
                        return
            self.done_bytes += split.size_bytes

    def finish(self) -> None:
        """Wait for what was sent; each record has delivery.timeout.ms at most."""
        while self._pending:
            self._settle_oldest()

    def _limited_bytes(self, rows: pyarrow.RecordBatch) -> int:
        """Bytes of keys and values, without those of other columns."""
        if not self._is_limited:
            return 0
        names = ["key", "value"] if self._reader.mapping.key else ["value"]
        return payload_bytes(map(rows.column, names))

    def _append(self, rows: pyarrow.RecordBatch) -> BulkFuture:
        mapping = self._reader.mapping
        named: list[tuple[str, Any]] = list(mapping.headers)
        named += [
            (name, rows.column(header_field(index)))
            for index, (name, _) in enumerate(mapping.header_columns)
        ]
        return self._producer.append_columns(
            topic=self._topic,
            values=rows.column("value"),
            keys=rows.column("key") if mapping.key else None,
            header_columns=named or None,
            partitions=rows.column("partition") if mapping.partition else None,
            timestamps_ms=rows.column("timestamp") if mapping.timestamp else None,
        )

    def _settle(self) -> None:
        while self._pending and (self._pending[0][2].done() or len(self._pending) > _MOST_PENDING):
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        split, first_row, future = self._pending.popleft()
        delivered = future.delivered()
        self.delivered_count += delivered.record_count
        self.delivered_bytes += delivered.byte_count
        failed = future.failed_rows()
        self.failed_count += len(failed)
        if failed and not self._is_fault_known:
            row, _, _, _, error = row_at_fault(failed)
            self._is_fault_known = is_fault(error)
            if self._is_fault_known or self.first_error is None:
                self.first_error = f"{split}, row {first_row + row:,} (from 0): {error}"
