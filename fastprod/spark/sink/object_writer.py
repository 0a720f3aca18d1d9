"""Sends Arrow batches with a producer that has plug-ins, which take rows as Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow
import pyarrow.compute

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.producer import KafkaProducer
from fastprod.spark.rows.row_plan import RowPlan
from fastprod.spark.sink.options import SinkOptions

_Headers = list[tuple[str, bytes | None]]


def send_batch(
    producer: KafkaProducer, batch: pyarrow.RecordBatch, plan: RowPlan, options: SinkOptions
) -> Iterator[tuple[pyarrow.Array | None, BulkFuture]]:
    """Queue the rows of a batch topic by topic; those of one topic stay in their order.

    Args:
        producer: any.
        batch: checked by `arrow_writer.check_batch`.
        plan: which column is what.
        options: of the write.

    Yields:
        The rows' indexes in the batch (None: all rows in their order), and their future.

    Blocks: while the producer's memory is full, and for new topics' metadata.
    """
    if options.topic is not None:
        yield None, _send(producer, batch, plan, options, options.topic)
        return
    assert plan.topic is not None
    topics = batch.column(plan.topic)
    names = pyarrow.compute.unique(topics)
    # Does not wait: one request fetches the metadata that the sends would fetch one by one.
    producer._await_topics(dict.fromkeys(names.to_pylist()), 0)
    for name in names:
        indexes = pyarrow.compute.indices_nonzero(pyarrow.compute.equal(topics, name))
        yield indexes, _send(producer, batch.take(indexes), plan, options, name.as_py())


def _send(
    producer: KafkaProducer,
    batch: pyarrow.RecordBatch,
    plan: RowPlan,
    options: SinkOptions,
    topic: str,
) -> BulkFuture:
    timestamps_ms = None
    if plan.timestamp is not None:
        timestamps_us = batch.column(plan.timestamp).cast(pyarrow.int64())
        timestamps_ms = [None if us is None else us // 1000 for us in timestamps_us.to_pylist()]
    return producer.send_many(
        topic,
        _byte_strings(batch.column(plan.value)),
        keys=None if plan.key is None else _byte_strings(batch.column(plan.key)),
        headers=_headers(batch, plan, options),
        partitions=None if plan.partition is None else batch.column(plan.partition).to_pylist(),
        timestamps_ms=timestamps_ms,
    )


def _byte_strings(column: pyarrow.Array) -> list[bytes | None]:
    kind = pyarrow.large_binary() if "large" in str(column.type) else pyarrow.binary()
    found: list[bytes | None] = column.cast(kind).to_pylist()
    return found


def _headers(
    batch: pyarrow.RecordBatch, plan: RowPlan, options: SinkOptions
) -> list[_Headers] | None:
    """The headers of each row: of the array, then of the options, then of columns."""
    if plan.headers is None and not options.headers and not plan.header_columns:
        return None
    named = [(name, _byte_strings(batch.column(column))) for name, column in plan.header_columns]
    arrays: list[Any] = [None] * batch.num_rows
    if plan.headers is not None:
        arrays = batch.column(plan.headers).to_pylist()
    rows = []
    for row, array in enumerate(arrays):
        # The fields' names may be in any case; their order is key, value.
        found: _Headers = [tuple(each.values()) for each in array or ()]
        found += options.headers
        found += [(name, values[row]) for name, values in named]
        rows.append(found)
    return rows
