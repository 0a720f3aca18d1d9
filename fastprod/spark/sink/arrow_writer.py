"""Sends Arrow batches column by column, without a Python object for a row."""

from __future__ import annotations

from typing import Final

import pyarrow
import pyarrow.compute

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.producer import KafkaProducer
from fastprod.spark.rows.bad_row import BadRow
from fastprod.spark.rows.row_plan import RowPlan
from fastprod.spark.sink.options import SinkOptions

NULL_TOPIC: Final = (
    "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for "
    "setting a default topic."
)


def append_batch(
    producer: KafkaProducer, batch: pyarrow.RecordBatch, plan: RowPlan, options: SinkOptions
) -> BulkFuture:
    """Queue the rows of a batch; the future names rows by their index in it.

    Args:
        producer: without plug-ins, which would need each row.
        batch: checked by `check_batch`.
        plan: which column is what.
        options: of the write.

    Blocks: while the producer's memory is full, and for new topics' metadata.
    """
    named = [(name, batch.column(column)) for name, column in plan.header_columns]
    return producer.append_columns(
        topic=options.topic if plan.topic is None else batch.column(plan.topic),
        values=batch.column(plan.value),
        keys=_column(batch, plan.key),
        headers=None if plan.headers is None else _named_headers(batch.column(plan.headers)),
        header_columns=[*options.headers, *named] or None,
        partitions=_column(batch, plan.partition),
        timestamps_ms=_column(batch, plan.timestamp),
    )


def check_batch(batch: pyarrow.RecordBatch, plan: RowPlan) -> None:
    """Find the first row that cannot be a record.

    Raises:
        BadRow: a null topic, a negative partition or timestamp, a header without a key, or with one
            that is no text.
    """
    topics = _column(batch, plan.topic)
    if topics is not None and topics.null_count:
        raise BadRow(_first(topics.is_null()), NULL_TOPIC)
    headers = _column(batch, plan.headers)
    if headers is not None:
        _check_headers(headers)
    partitions = _column(batch, plan.partition)
    index = _first_negative(partitions)
    if partitions is not None and index is not None:
        raise BadRow(
            index,
            f"Invalid partition: {partitions[index].as_py()}. Partition number should always be "
            f"non-negative or null.",
        )
    timestamps = _column(batch, plan.timestamp)
    if timestamps is not None:
        timestamps_us = timestamps.cast(pyarrow.int64())
        index = _first_negative(timestamps_us)
        if index is not None:
            raise BadRow(
                index,
                f"Invalid timestamp: {timestamps_us[index].as_py()} us since 1970-01-01 UTC. "
                f"Kafka's timestamps begin there; give a later one, or null for now.",
            )


def _column(batch: pyarrow.RecordBatch, index: int | None) -> pyarrow.Array | None:
    return None if index is None else batch.column(index)


def _named_headers(headers: pyarrow.Array) -> pyarrow.Array:
    """Rename the fields, which Spark takes in any case, to Kafka's names; nothing is copied."""
    key, value = headers.type.value_type
    if (key.name, value.name) == ("key", "value"):
        return headers
    entry = pyarrow.struct([key.with_name("key"), value.with_name("value")])
    is_large = pyarrow.types.is_large_list(headers.type)
    return headers.view(pyarrow.large_list(entry) if is_large else pyarrow.list_(entry))


def _first(bits: pyarrow.Array) -> int:
    """Index of the first true value; -1: there is none."""
    return int(pyarrow.compute.index(bits, True).as_py())


def _first_negative(numbers: pyarrow.Array | None) -> int | None:
    if numbers is None or (pyarrow.compute.min(numbers).as_py() or 0) >= 0:
        return None
    return _first(pyarrow.compute.less(numbers, 0))


def _check_headers(headers: pyarrow.Array) -> None:
    entries = headers.flatten()  # without the elements of null rows
    keys = pyarrow.compute.struct_field(entries, 0)
    at = _first(pyarrow.compute.is_null(keys))
    if at >= 0:
        what = "a header with a null key" if entries[at].is_valid else "a null among its headers"
        why = f"The row has {what}; every header needs a key."
    else:
        at = _first_no_text(keys)
        why = "The row has a header whose key is no UTF-8 text, which consumers cannot read."
    if at >= 0:
        ends = pyarrow.compute.cumulative_sum(
            pyarrow.compute.fill_null(pyarrow.compute.list_value_length(headers), 0)
        )
        raise BadRow(_first(pyarrow.compute.greater(ends, at)), why)


def _first_no_text(texts: pyarrow.Array) -> int:
    """Index of the first string that is no UTF-8, as casts of binary make them; -1: none."""
    try:
        texts.validate(full=True)
    except pyarrow.ArrowInvalid:
        for index in range(len(texts)):
            try:
                texts[index].as_py()
            except UnicodeDecodeError:
                return index
    return -1
