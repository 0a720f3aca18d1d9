"""Writes a task's rows in a Spark worker: waits until Kafka has them, and reports."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

import pyarrow
from pyspark import TaskContext

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.load.rate_limiter import RateLimiter, payload_bytes
from fastprod.load.row_error import RowError, row_at_fault
from fastprod.producer import KafkaProducer
from fastprod.spark.rows.bad_row import BadRow
from fastprod.spark.rows.row_plan import RowPlan
from fastprod.spark.sink import producer_cache
from fastprod.spark.sink.arrow_writer import append_batch, check_batch
from fastprod.spark.sink.gc_freeze import freeze
from fastprod.spark.sink.object_writer import send_batch
from fastprod.spark.sink.options import SinkOptions
from fastprod.spark.sink.task_report import TaskReport

# A future takes 16 bytes for each row; with more pending bulks nothing is faster.
_MOST_PENDING: Final = 1_000


def run(plan: RowPlan, options: SinkOptions, batches: Iterator[pyarrow.RecordBatch]) -> TaskReport:
    """Write a task's rows; return when Kafka has acknowledged each.

    The producer is made at the first row, so that a task without rows needs no broker, and is kept
    for the worker's next task unless something fails.

    Args:
        plan: which column is what.
        options: of the write.
        batches: encoded batches of Spark; each is released before the next is taken.

    Raises:
        RowError: a row was not written; it says which, and why.
        KafkaError: the producer cannot be made.

    Blocks: as long as Kafka takes, each record at most delivery.timeout.ms, and as long as the rows
    take at `max_bytes_per_second`: the worker's next task begins when they have had it.
    """
    context = TaskContext.get()
    report = TaskReport(
        spark_partition=0 if context is None else context.partitionId(),
        attempt=0 if context is None else context.attemptNumber(),
        worker_pid=os.getpid(),
    )
    task = _Task(plan, options, report)
    try:
        try:
            for batch in batches:
                if batch.num_rows:
                    task.write(batch)
        except BadRow as error:
            task.refuse(error)
        task.finish()
    except BaseException:
        producer_cache.drop(options.settings)
        raise
    if options.tunes_worker:
        freeze()
    return report


class _Bulk(NamedTuple):
    """Rows whose outcome is not known yet."""

    future: BulkFuture
    first_row: int  # of their batch, in the task
    indexes: pyarrow.Array | None = None  # in the batch; None: the whole batch

    def row_of(self, index: int) -> int:
        """Index in the task of a row of the future."""
        place = index if self.indexes is None else int(self.indexes[index].as_py())
        return self.first_row + place


class _Task:
    """One attempt of one task."""

    def __init__(self, plan: RowPlan, options: SinkOptions, report: TaskReport) -> None:
        self._plan = plan
        self._options = options
        self._report = report
        self._rate_limiter = RateLimiter(options.max_bytes_per_second)
        self._producer: KafkaProducer | None = None
        self._before: dict[str, int] = {}
        self._began_s = time.monotonic()
        self._row_count = 0
        self._pending: deque[_Bulk] = deque()

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Queue a batch's rows; blocks while the producer's memory is full."""
        if self._producer is None:
            self._began_s = time.monotonic()
            self._report.began_unix_s = time.time()
            self._producer = producer_cache.producer_for(self._options.settings)
            self._report.client_id = self._producer.config.client_id
            self._before = _totals(self._producer)
        for piece in self._rate_limiter.pieces(batch.num_rows, self._limited_bytes(batch)):
            self._send(batch.slice(piece.start, piece.stop - piece.start), self._producer)
            self._settle_done()

    def _limited_bytes(self, batch: pyarrow.RecordBatch) -> int:
        """Bytes of keys and values: other columns, which may be no part of a record, are free."""
        if not self._options.max_bytes_per_second:
            return 0
        columns = (self._plan.key, self._plan.value)
        return payload_bytes(batch.column(each) for each in columns if each is not None)

    def _send(self, batch: pyarrow.RecordBatch, producer: KafkaProducer) -> None:
        first_row = self._row_count
        check_batch(batch, self._plan)
        if self._options.has_plugins:
            for indexes, future in send_batch(producer, batch, self._plan, self._options):
                self._pending.append(_Bulk(future, first_row, indexes))
                # A topic that does not appear fails the task: do not wait for another one.
                self._settle_done()
        else:
            future = append_batch(producer, batch, self._plan, self._options)
            self._pending.append(_Bulk(future, first_row))
        self._row_count += batch.num_rows

    def finish(self) -> None:
        """Wait until every row is acknowledged, and fill the report."""
        if self._producer is None:
            return
        self._producer.flush()
        while self._pending:
            self._settle()
        after = _totals(self._producer)
        report = self._report
        report.retried_rows = after["records_retried"] - self._before["records_retried"]
        report.throttle_ms = after["throttle_ms"] - self._before["throttle_ms"]
        report.sent_bytes = after["request_bytes"] - self._before["request_bytes"]
        self._rate_limiter.wait()
        report.seconds = time.monotonic() - self._began_s

    def _settle_done(self) -> None:
        """Take the known outcomes; wait for the oldest bulks if there are too many."""
        while self._pending and (
            self._pending[0].future.done() or len(self._pending) > _MOST_PENDING
        ):
            self._settle()

    def _settle(self) -> None:
        """Take the outcome of the oldest bulk into the report."""
        bulk = self._pending.popleft()
        delivered = bulk.future.delivered()
        self._report.rows += delivered.record_count
        self._report.bytes += delivered.byte_count
        self._report.add_ranges(delivered.ranges)
        failed = bulk.future.failed_rows()
        if failed:
            index, topic, key_size_bytes, value_size_bytes, error = row_at_fault(failed)
            raise RowError(
                f"{type(error).__name__}: {error}",
                row=bulk.row_of(index),
                spark_partition=self._report.spark_partition,
                attempt=self._report.attempt,
                topic=topic,
                partition=error.partition,
                key_size_bytes=key_size_bytes,
                value_size_bytes=value_size_bytes,
                failed_count=len(failed),
                acknowledged_count=self._report.rows,
            ) from error

    def refuse(self, cause: BadRow) -> NoReturn:
        """A row of the next batch is no record; those before that may be written."""
        raise RowError(
            str(cause),
            row=self._row_count + cause.index,
            spark_partition=self._report.spark_partition,
            attempt=self._report.attempt,
            acknowledged_count=self._report.rows,
        ) from cause


def _totals(producer: KafkaProducer) -> dict[str, int]:
    """The producer's counters since it was made."""
    return producer._engine.counters()
