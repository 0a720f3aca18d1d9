"""StreamJob: streams a source of Spark through SQL into a topic."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.input_files import (
    TEXTS,
    InputError,
    InputFile,
    NoFiles,
    check_folders,
    check_packing,
    check_pattern,
    find_files,
    folder_columns,
    format_of,
    is_local,
    plain_path,
    reads_by_folders,
)
from fastprod.load.load_request import is_tabbed
from fastprod.load.stream_check import StreamCheck
from fastprod.spark.interrupt import Interrupt
from fastprod.spark.jobs.checked_files import (
    check_columns,
    damage_told,
    stream_check,
    watched,
    with_known_times,
)
from fastprod.spark.jobs.frame_engine import (
    queried,
    read_frame,
    reader_defaults,
    record_frame,
    record_options,
)
from fastprod.spark.jobs.orc_times import with_file_times
from fastprod.spark.jobs.stream_files import Seen, StreamFiles, not_read, seen_files
from fastprod.spark.jobs.tasks_at_once import tasks_at_once
from fastprod.spark.sink.api import progress, write_stream
from fastprod.spark.sink.write_result import WriteResult

_WATCH_S: Final = 0.2
_STOP_S: Final = 15.0
# Spark passes over new files whose time is a week before that of others: moved or copied ones.
_ALL_FILES: Final = {"maxFileAge": "36500d"}


@dataclass(frozen=True)
class StreamSource:
    """What a stream reads; plain data.

    Attributes:
        kind: Spark's name of the source.
        options: its options.
        path: a folder, or a URL's pattern; None: the source has none.
        schema: of its files, as DDL; None: the files' own.
        files: in the folder, as far as they are there at the start.
        given: those of the options that were given by the user.
        by_name: whether the names of files tell the format.
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    schema: str | None = None
    files: tuple[InputFile, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    by_name: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of this machine."""
        return self.path is not None and is_local(self.path)


@dataclass(frozen=True)
class StreamRequest:
    """What a stream job is to do; attributes as of `LoadRequest`."""

    source: StreamSource
    topic: str
    kafka: Mapping[str, str] = field(repr=False)
    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    select: str | None = None
    where: str | None = None
    sql: str | None = None
    output_mode: str = "append"
    trigger: Mapping[str, Any] = field(default_factory=dict)
    max_bytes_per_second: int = 0


def stream_source(
    source: str, kind: str | None, options: Mapping[str, str], schema: str | None, servers: str
) -> StreamSource:
    """Parse SOURCE of the command line.

    Args:
        source: ``rate``, ``rate:ROWS``, ``kafka:TOPIC``, or a folder.
        kind: format of the folder's files; None: by their names.
        options: of the source, by Spark's names.
        schema: of the files, as DDL.
        servers: brokers of the topic that is read.

    Raises:
        InputError: it is none of these.
    """
    name, _, rest = source.partition(":")
    if name == "rate":
        if rest and not rest.isdigit():
            raise InputError(f"{source}: after rate: comes the number of rows a second")
        return StreamSource("rate", {"rowsPerSecond": rest or "1", **options})
    if name == "kafka":
        if not rest:
            raise InputError(f"{source}: after kafka: comes the topic")
        given = {"kafka.bootstrap.servers": servers, "subscribe": rest, **options}
        return StreamSource("kafka", given)
    files: list[InputFile] = []
    by_name = kind is None
    if is_local(source):
        source = plain_path(source)
        if not Path(source).is_dir():
            raise InputError(f"{source}: no such folder, and neither rate nor kafka:TOPIC")
        try:
            files = find_files([source])
        except NoFiles as error:
            if kind is None:
                raise InputError(f"{error}; a folder that is empty needs --format") from error
        kind = kind or format_of([file.path for file in files])
        for path in (str(Path(source).absolute()), *(file.path for file in files)):
            check_pattern(path)
        if kind in TEXTS:
            check_packing(files, is_spark=True)
        if reads_by_folders(options):
            _check_nested(files)
            check_folders(files)
    elif kind is None:
        raise InputError(f"{source}: a URL needs --format")
    assert kind is not None
    given = {**_ALL_FILES, **reader_defaults(kind, options, is_tabbed=is_tabbed(files))}
    return StreamSource(kind, given, source, schema, tuple(files), options, by_name)


def _check_nested(files: Iterable[InputFile]) -> None:
    """Refuse files in folders that Spark passes over.

    Raises:
        InputError: the first, and what to do.
    """
    for file in files:
        folders = Path(file.path).relative_to(file.root).parts[:-1]
        if any("=" not in folder for folder in folders):
            raise not_read(file.path, file.root)


class StreamJob:
    """One run of a stream.

    Args:
        spark: the session.
        request: what to do.
        checkpoint: folder where Spark keeps how far it is.

    Attributes:
        total: what this run has written.
        batch_id: of the last micro-batch that was committed; None: none yet.

    Threads: one.
    """

    def __init__(self, spark: SparkSession, request: StreamRequest, checkpoint: str) -> None:
        self._spark = spark
        self._request = request
        self._checkpoint = checkpoint
        self.total = WriteResult()
        self.batch_id: int | None = None
        self._files: tuple[StreamFiles, StreamCheck] | None = None

    def run(self, watch: Callable[[], None], run_for_s: float | None = None) -> None:
        """Start the query and wait for its end.

        Args:
            watch: called some five times a second, in this thread.
            run_for_s: stop it after so long; None: it stops by itself, or by Ctrl-C.

        Raises:
            InputError: a column; or a file was not read as it is.
            pyspark.errors.PySparkException: Spark refuses the query, or it has failed.
            KeyboardInterrupt: after Ctrl-C, when the query has been stopped.

        Blocks: until the end.
        """
        with Interrupt() as interrupt:
            query = self._started()
            ends_s = None if run_for_s is None else time.monotonic() + run_for_s
            try:
                while query.isActive and (ends_s is None or time.monotonic() < ends_s):
                    interrupt.wait(_WATCH_S)
                    self._update(query)
                    self._look()
                    watch()
            finally:
                self._stop(query)
                self._update(query)
            failure = query.exception()
            if failure is not None:
                raise failure
            self._look(is_last=True)

    def _look(self, *, is_last: bool = False) -> None:
        if self._files is not None:
            files, check = self._files
            files.look(check, self.batch_id, is_last=is_last)

    def _started(self) -> StreamingQuery:
        request = self._request
        files = self._read()
        if request.source.kind == "orc":
            has_schema = request.source.schema is not None
            files = with_file_times(files, request.source.files, has_schema=has_schema)
            files = with_known_times(files)
        rows = queried(files, request.sql, request.select, request.where)
        mapping = request.mapping.resolved(rows.columns)
        records = record_frame(rows, mapping)
        if request.source.is_folder:
            # What is asked of the files depends on what becomes of their columns.
            check = self._check(files, mapping)
            seen = seen_files(self._spark.sparkContext)
            self._files = self._follower(seen), check
            files = watched(files, check, seen)
            rows = queried(files, request.sql, request.select, request.where)
            records = record_frame(rows, mapping)
        kafka = dict(request.kafka)
        limit = request.max_bytes_per_second
        rate = max(1, limit // tasks_at_once(self._spark)) if limit else 0
        return write_stream(
            records,
            bootstrap_servers=kafka.pop("bootstrap.servers"),
            topic=request.topic,
            checkpoint=self._checkpoint,
            output_mode=request.output_mode,
            trigger=request.trigger or None,
            kafka=kafka,
            options={
                **record_options(records, request.mapping),
                "fastprod.validate": "false",
                "fastprod.max.bytes.per.second": str(rate),
            },
        )

    def _read(self) -> DataFrame:
        source = self._request.source
        reader = self._spark.readStream.format(source.kind).options(**source.options)
        if source.path is None:
            return reader.load()
        if source.schema is not None:
            reader = reader.schema(source.schema)
        elif source.kind != "text":
            reader = reader.schema(self._columns(source.path))
        return reader.load(source.path)

    def _check(self, files: DataFrame, mapping: ColumnMapping) -> StreamCheck:
        request, source = self._request, self._request.source
        has_query = not (request.select is None and request.where is None and request.sql is None)
        return stream_check(
            source.kind,
            source.files,
            source.given,
            files.schema,
            used=None if has_query or mapping.value_format == "json" else mapping.columns,
            has_schema=source.schema is not None,
            by_name=source.by_name,
        )

    def _follower(self, seen: Accumulator[deque[Seen]]) -> StreamFiles:
        source = self._request.source
        assert source.path is not None
        given = {name.lower(): value.lower() for name, value in source.given.items()}
        return StreamFiles(
            seen,
            source.path,
            self._checkpoint,
            by_folders=reads_by_folders(source.given),
            is_cleaned=given.get("cleansource", "off") != "off",
        )

    def _columns(self, path: str) -> StructType:
        """The columns of the files that are there now, and of folders named name=value."""
        source = self._request.source
        spark, kind, files = self._spark, source.kind, source.files
        with damage_told(spark, kind, files, source.given):
            if reads_by_folders(source.given) and any(map(folder_columns, files)):
                alone = {**source.options, "recursiveFileLookup": "true"}
                check_columns(files, read_frame(spark, kind, [path], alone).columns)
            return read_frame(spark, kind, [path], source.options).schema

    def _stop(self, query: StreamingQuery) -> None:
        """Stop the query, and wait for its thread as long as Spark's limit allows."""
        with contextlib.suppress(PySparkException, Py4JError):
            self._spark.conf.set("spark.sql.streaming.stopTimeout", f"{int(_STOP_S * 1000)}")
            query.stop()

    def _update(self, query: StreamingQuery) -> None:
        told = progress(query)
        self.total, self.batch_id = told.total, told.batch_id
