"""DirectEngine: workers read the files themselves; Spark only hands out the splits.

No row becomes a row of Spark's, which makes it some two and a half times faster than its readers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_splits import FileSplit
from fastprod.load.split_reader import SplitReader
from fastprod.spark.rows.row_plan import RowPlan
from fastprod.spark.sink import task_writer
from fastprod.spark.sink.options import SinkOptions
from fastprod.spark.sink.task_report import summary

NumberedSplit = tuple[int, FileSplit]
Done = tuple[int, dict[str, Any]]
"""A split's number and its report; see `task_report.summary`."""


class _DoneParam(AccumulatorParam[list[Done]]):
    """Lists of finished splits, joined; Spark brings them to the driver as each task ends."""

    def zero(self, value: list[Done]) -> list[Done]:
        """The empty list."""
        return []

    def addInPlace(self, value1: list[Done], value2: list[Done]) -> list[Done]:
        """Both lists, joined."""
        value1.extend(value2)
        return value1


class DirectEngine:
    """Loads splits into Kafka, one task each.

    Args:
        spark: the session.
        reader: how the splits are read.
        options: of the sink; its headers are those of the mapping.

    Threads: `run` by one, `finished` by another meanwhile.
    """

    def __init__(self, spark: SparkSession, reader: SplitReader, options: SinkOptions) -> None:
        self._context = spark.sparkContext
        self._reader = reader
        self._options = options
        no_splits: list[Done] = []
        self._done: Accumulator[list[Done]] = self._context.accumulator(no_splits, _DoneParam())
        self._told_count = 0

    def run(self, splits: Sequence[NumberedSplit]) -> None:
        """Load the splits, in the job group that this thread has in Spark.

        Raises:
            py4j.protocol.Py4JJavaError: a task failed for good; others may have finished.

        Blocks: until all are in Kafka.
        """
        if splits:
            write: Callable[[Iterable[NumberedSplit]], None] = functools.partial(
                _write_splits, self._reader, self._options, self._done
            )
            self._context.parallelize(splits, len(splits)).foreachPartition(write)

    def finished(self) -> list[Done]:
        """The splits that were finished since the last call."""
        done = self._done.value
        found = done[self._told_count :]
        self._told_count += len(found)
        return found


def record_plan(mapping: ColumnMapping) -> RowPlan:
    """The plan for the batches of a split reader."""
    names = ["value", *(["key"] if mapping.key else [])]
    names += ["partition"] if mapping.partition else []
    names += ["timestamp"] if mapping.timestamp else []
    return RowPlan(
        value=0,
        key=names.index("key") if mapping.key else None,
        partition=names.index("partition") if mapping.partition else None,
        timestamp=names.index("timestamp") if mapping.timestamp else None,
        header_columns=tuple(
            (name, len(names) + index) for index, (name, _) in enumerate(mapping.header_columns)
        ),
    )


def _write_splits(
    reader: SplitReader,
    options: SinkOptions,
    done: Accumulator[list[Done]],
    splits: Iterable[NumberedSplit],
) -> None:
    """Load one split; runs in a worker."""
    plan = record_plan(reader.mapping)
    for number, split in splits:
        batches: Iterator[Any] = reader.batches(split)
        report = summary([task_writer.run(plan, options, batches)])
        done += [(number, report)]
