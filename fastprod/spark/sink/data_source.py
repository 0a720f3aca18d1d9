"""FastprodDataSource: what Spark calls for ``format("fastprod")``, on the driver and in its tasks.

Spark makes the writer on the driver and pickles it into the tasks; `commit` and `abort` run in
another process of the driver's machine.  A writer holds plain data only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from fastprod.errors import ConfigError, KafkaTimeoutError, UnknownTopicOrPartitionError
from fastprod.spark.formats.record_format import RecordFormat, record_format
from fastprod.spark.formats.schema_registry import RegistryAway
from fastprod.spark.hidden_options import all_options, refuse_shown
from fastprod.spark.rows.row_plan import RowPlan, row_plan
from fastprod.spark.sink import commit_total, task_writer
from fastprod.spark.sink.cluster_check import check_cluster
from fastprod.spark.sink.gc_freeze import freeze
from fastprod.spark.sink.options import SinkOptions, sink_options
from fastprod.spark.sink.task_report import TaskReport, summary

if TYPE_CHECKING:
    import pyarrow

CONTINUOUS: Final = (
    "a continuous trigger is refused: Spark gives a sink in Python none of its rows; give "
    "trigger(processingTime=...), or no trigger for one micro-batch after the other"
)
_REGISTRY_S: Final = 120.0  # as long as a record has by default
_PAUSE_S: Final = 1.0
# Used in the process that commits a stream's micro-batches.
_COMMITTING: Final = "pyspark.sql.worker.python_streaming_sink_runner"

_log = logging.getLogger("fastprod.spark")


class FastprodDataSource(DataSource):
    """The sink "fastprod": the columns and options of Spark's own Kafka sink, and some more."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "fastprod"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Check everything that can be checked without a row.

        Raises:
            ConfigError: an option, or the save mode.
            FormatError: a format of values or keys, or one of its options.
            SchemaError: a column.
            KafkaError: the cluster.

        Blocks: up to 10 s for the cluster.
        """
        if overwrite:
            raise ConfigError(
                "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and "
                "ErrorIfExists (default)."
            )
        return BatchWriter(*self._checked(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """The same for a stream; output mode Complete (`overwrite`) writes its result each time.

        Spark asks for each micro-batch, often in a new process. A cluster that does not answer just
        then ends no stream; see `_check_stream`. Nor does a schema registry, for two minutes.
        """
        if _COMMITTING in sys.modules:
            # The rows are in Kafka: an error now would make Spark write them again.
            nothing = RecordFormat(schema, (), ())
            return StreamWriter(RowPlan(value=0), sink_options(self.options), nothing)
        return StreamWriter(*self._checked(schema, is_stream=True))

    def _checked(
        self, schema: StructType, *, is_stream: bool = False
    ) -> tuple[RowPlan, SinkOptions, RecordFormat]:
        refuse_shown(self.options)
        options = sink_options(self.options)
        waits = options.is_under_way or (is_stream and _may_be_under_way(options))
        encoding = self._encoding(schema, options, _REGISTRY_S if waits else 0.0)
        plan = row_plan(encoding.schema, options.topic, options.header_columns)
        options.check_settings()
        _check_files(options)
        if options.validates:
            check = _check_stream if is_stream else check_cluster
            check(options)
        if options.tunes_worker:
            freeze()
        return plan, options, encoding

    def _encoding(
        self, schema: StructType, options: SinkOptions, patience_s: float
    ) -> RecordFormat:
        """Plan what makes records of rows; wait for a schema registry that is away."""
        given = all_options(self.options)
        deadline_s = time.monotonic() + patience_s
        while True:
            try:
                return record_format(schema, given, options.header_columns)
            except RegistryAway as error:
                if time.monotonic() >= deadline_s:
                    raise
                _log.warning("asking again: %s", error)
            time.sleep(_PAUSE_S)


class _RowWriter:
    """The part of both writers that runs in a worker."""

    def __init__(self, plan: RowPlan, options: SinkOptions, encoding: RecordFormat) -> None:
        self._plan = plan
        self._sink_options = options
        self._encoding = encoding

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskReport:
        """Write one task's rows, in a worker; see `task_writer.run`."""
        rows = self._encoding.batches(iterator)
        return task_writer.run(self._plan, self._sink_options, rows)


class BatchWriter(_RowWriter, DataSourceArrowWriter):
    """Writes a DataFrame, at least once."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Note what was written: the records are in Kafka already."""
        _note(self._sink_options, messages, None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: what the tasks wrote stays, as with Spark's own sink."""


class StreamWriter(_RowWriter, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream, each at least once."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Note what was written: the records are in Kafka already.

        Raises:
            ConfigError: a task has not reported: with a continuous trigger Spark gives a sink in
                Python no row, and commits what it has read; the error keeps it from that.
        """
        if any(each is None for each in messages):
            raise ConfigError(CONTINUOUS, key="trigger")
        _note(self._sink_options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what the tasks wrote stays, as with Spark's own sink."""


def _may_be_under_way(options: SinkOptions) -> bool:
    """Whether a stream may have written something.

    Without a total, which `write_stream` has, nobody knows whether the stream has just begun.
    """
    if not options.total_path:
        return True
    try:
        return commit_total.found(Path(options.total_path)) is not None
    except (OSError, ValueError):
        return True  # nobody asks any more, or `_check_files` refuses it


def _check_stream(options: SinkOptions) -> None:
    """Check the cluster, but leave to the tasks, which wait longer, what may pass by itself.

    Raises:
        KafkaError: the cluster refuses, or has no such topic; or it does not answer, and the stream
            has just begun.
    """
    if not _may_be_under_way(options):
        check_cluster(options)
    if options.total_path:
        return
    try:
        check_cluster(options)
    except KafkaTimeoutError as error:
        if isinstance(error.__cause__, UnknownTopicOrPartitionError):
            raise  # a broker has answered for as long as was asked
        _log.warning("the tasks go on looking: %s", error)


def _check_files(options: SinkOptions) -> None:
    """Refuse files that a commit could not write to: by then the rows are in Kafka.

    Raises:
        ConfigError: one of the two options.
    """
    if options.report_path:
        try:
            _append(options.report_path, "")
        except (OSError, ValueError) as error:
            _refuse("fastprod.report.path", options.report_path, error)
    if options.total_path:
        try:
            commit_total.found(Path(options.total_path))
        except FileNotFoundError:
            pass  # not asked for
        except (OSError, ValueError) as error:
            _refuse("fastprod.total.path", options.total_path, error)


def _refuse(name: str, path: str, error: Exception) -> NoReturn:
    raise ConfigError(f"{name} = {path!r}: {error}", key=name, value=path) from error


def _note(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch_id: int | None
) -> None:
    """Write the report and the total that were asked for; errors are logged, not raised.

    The rows are in Kafka: an error would make Spark write them again.
    """
    with _logged("what was written is not noted"):
        if options.tunes_worker:
            freeze()
        told = summary([each for each in messages if isinstance(each, TaskReport)])
        if options.report_path:
            with _logged(f"fastprod.report.path: cannot append to {options.report_path}"):
                _append(options.report_path, json.dumps({"batch_id": batch_id, **told}) + "\n")
        if options.total_path:
            with _logged(f"fastprod.total.path: cannot add to {options.total_path}"):
                _add(options.total_path, told, batch_id)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _log.error("%s: %s: %s", what, type(error).__name__, error)


def _append(path: str, line: str) -> None:
    """Append a line; a pipe without a reader is an OSError, not a wait."""
    with open(path, "a", encoding="utf-8", opener=_open_at_once) as file:
        file.write(line)


def _open_at_once(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def _add(path: str, told: Mapping[str, Any], batch_id: int | None) -> None:
    try:
        commit_total.add(Path(path), told, batch_id)
    except FileNotFoundError:
        _log.info("%s is gone: nobody asks any more", path)
