"""LoadRequest: what a load job is to do, as plain data."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.csv_reader import csv_names
from fastprod.load.file_splits import SPLIT_BYTES
from fastprod.load.input_files import (
    COMPRESSIONS,
    InputError,
    InputFile,
    NeedsSpark,
    UnlikeFiles,
    check_folders,
    check_packing,
    check_spark_reads,
    find_files,
    folder_columns,
    format_of,
    is_local,
    reads_by_folders,
)
from fastprod.load.reader_options import ReaderOptions, reader_options
from fastprod.load.split_reader import (
    FORMATS,
    SplitReader,
    check_types,
    columns_of,
    parquet_types,
)

ENGINES: Final = ("auto", "spark", "direct")
# A worker holds its part of a text in memory as a whole.
_MOST_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True)
class LoadRequest:
    """What a load job is to do.

    Attributes:
        paths: files, folders, patterns; URLs for the engine "spark".
        topic: topic to write to.
        kafka: settings of the producer by Kafka's dotted names, with bootstrap.servers; not shown.
        kind: format of the files; None: by their names.
        mapping: which column is what.
        reader_options: by Spark's names.
        schema: of the files, as DDL; None: their own.
        select: SQL expressions; None: all columns.
        where: SQL condition.
        sql: a whole query over `input`, instead of both.
        engine: one of `ENGINES`; "auto": "direct" if it can do it.
        partitions: number of tasks, more if they would be too large for memory; 0: by size.
        max_bytes_per_second: of keys and values, all tasks together; 0: no limit.
        job_id: name under which a later run goes on; None: none does.
        state: folder of the manifests.
    """

    paths: tuple[str, ...]
    topic: str
    kafka: Mapping[str, str] = field(repr=False)
    kind: str | None = None
    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    reader_options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    select: str | None = None
    where: str | None = None
    sql: str | None = None
    engine: str = "auto"
    partitions: int = 0
    max_bytes_per_second: int = 0
    job_id: str | None = None
    state: Path = Path()

    @property
    def has_query(self) -> bool:
        """Whether the rows are the result of SQL."""
        return not (self.select is None and self.where is None and self.sql is None)

    def settings(self, kind: str, engine: str) -> dict[str, str]:
        """The settings that must be the same in all runs of a job; constant headers as a digest."""
        headers = self.mapping.headers
        return {
            "topic": self.topic,
            "bootstrap servers": self.kafka.get("bootstrap.servers", ""),
            "format": kind,
            "engine": engine,
            **{f"mapping.{name}": str(each) for name, each in self.mapping.__dict__.items()},
            # They may be secrets, such as tokens.
            "mapping.headers": str([(name, self._digest(value)) for name, value in headers]),
            "reader options": json.dumps(dict(sorted(self.reader_options.items()))),
            "schema": self.schema or "",
            "query": self.sql or json.dumps([self.select, self.where]),
        }

    def _digest(self, value: bytes) -> str:
        return hashlib.sha256(f"{self.job_id}:".encode() + value).hexdigest()


@dataclass(frozen=True)
class LoadPlan:
    """A request, its files, and the engine that loads them.

    Attributes:
        request: what was asked for.
        kind: format of the files.
        files: files of this machine; empty for URLs.
        reader: how the direct engine reads them; None: Spark does.
    """

    request: LoadRequest
    kind: str
    files: list[InputFile]
    reader: SplitReader | None

    @property
    def engine(self) -> str:
        """ "direct" or "spark"."""
        return "spark" if self.reader is None else "direct"

    @property
    def is_tabbed(self) -> bool:
        """Whether the files are CSV with tabs."""
        return is_tabbed(self.files)

    @property
    def by_lines(self) -> bool:
        """Whether text can be cut at any line's end."""
        return self.reader is None or not self.reader.options.is_multiline

    def split_bytes(self) -> int:
        """Wanted size of a task, in bytes."""
        if self.request.partitions:
            total = sum(file.size_bytes for file in self.files)
            return min(max(1, -(-total // self.request.partitions)), _MOST_BYTES)
        return SPLIT_BYTES


def is_tabbed(files: list[InputFile]) -> bool:
    """Whether the files' names end in .tsv, before the ending of a codec."""
    names = [Path(file.path) for file in files]
    plain = [name.with_suffix("") if name.suffix in COMPRESSIONS else name for name in names]
    return bool(plain) and all(name.suffix.lower() == ".tsv" for name in plain)


def load_plan(request: LoadRequest) -> LoadPlan:
    """Find the files and choose the engine; Spark is not needed yet.

    Raises:
        InputError: a path, the format, a column or a file is wrong, or "direct" cannot load it.
    """
    local = [path for path in request.paths if is_local(path)]
    if len(local) < len(request.paths):
        if local:
            raise InputError("some paths are URLs and some are not: load them one by one")
        if request.engine == "direct":
            raise InputError("the engine direct reads files of this machine alone, not URLs")
        if request.job_id is not None:
            raise InputError("--job-id needs files of this machine, not URLs")
        return LoadPlan(request, request.kind or format_of(request.paths), [], None)
    files = find_files(request.paths)
    kind = request.kind or format_of([file.path for file in files])
    reader = None
    if request.engine != "spark":
        # Other errors are not left to Spark, which may read damaged files without some rows.
        try:
            reader = direct_reader(request, kind, files)
        except NeedsSpark:
            if request.engine == "direct":
                raise
    if reader is None:
        check_spark_reads(files, kind)
        if reads_by_folders(request.reader_options):
            check_folders(files)
    return LoadPlan(request, kind, files, reader)


def direct_reader(request: LoadRequest, kind: str, files: list[InputFile]) -> SplitReader:
    """How to read the files without Spark's readers.

    Raises:
        NeedsSpark: only Spark's readers can read it.
        UnlikeFiles: a file has a column for keys or values, and those before it have none.
        InputError: a column is missing or has a wrong type.
    """
    if kind not in FORMATS:
        raise NeedsSpark(f"{kind} is not read without Spark; there are {', '.join(FORMATS)}")
    if request.has_query or request.schema is not None:
        raise NeedsSpark("--select, --where, --sql and --schema need Spark's engine")
    if request.mapping.value_format != "raw":
        raise NeedsSpark(f"--value-format {request.mapping.value_format} needs Spark's engine")
    options = reader_options(kind, request.reader_options, is_tabbed=is_tabbed(files))
    if kind != "parquet":
        check_packing(files)
    types = columns_of(files, kind, options, request.mapping)
    if types is None:
        # No file has a line: there are neither columns nor rows.
        value, key = request.mapping.value or "value", request.mapping.key or ""
        mapping = dataclasses.replace(request.mapping, value=value, key=key)
        types = dict.fromkeys(mapping.columns, pyarrow.string())
    else:
        _check_folders(request.mapping, list(types), files)
        mapping = request.mapping.resolved(list(types))
        check_types(mapping, types)
        _check_other_files(request.mapping, mapping, types, kind, options, files)
    used = {name: types[name] for name in mapping.columns} if kind == "json" else {}
    return SplitReader(kind, mapping, options, used)


def _check_folders(given: ColumnMapping, columns: list[str], files: list[InputFile]) -> None:
    """Leave to Spark what uses columns that it makes of folders such as key=7."""
    made = {name for file in files for name in folder_columns(file)}
    try:
        used = made.intersection(given.resolved([*columns, *made.difference(columns)]).columns)
    except InputError:
        return
    for name in sorted(used):
        raise NeedsSpark(f"column {name!r} is in the names of folders, which Spark alone reads")


def _check_other_files(
    given: ColumnMapping,
    mapping: ColumnMapping,
    types: dict[str, pyarrow.DataType],
    kind: str,
    options: ReaderOptions,
    files: list[InputFile],
) -> None:
    """Refuse, before anything is sent, what would be read wrong; splits find missing columns."""
    for file in files:
        if kind == "parquet":
            try:
                found = parquet_types(file.path)
                check_types(mapping, types | found)
            except NeedsSpark as error:
                raise NeedsSpark(f"{file.path}: {error}") from error
            except (OSError, pyarrow.ArrowException) as error:
                raise InputError(f"{file.path} cannot be read as parquet: {error}") from error
            _check_defaults(given, mapping, file, found)
        elif kind == "csv":
            names: list[str] | None = None
            with contextlib.suppress(OSError, EOFError, pyarrow.ArrowException, InputError):
                names = csv_names(file.path, options)
            _check_defaults(given, mapping, file, names or ())


def _check_defaults(
    given: ColumnMapping, mapping: ColumnMapping, file: InputFile, columns: Container[str]
) -> None:
    """Refuse a file with a column that would be used by default, if it were in the first file."""
    for name in ("key", "value"):
        # The column "key" may be the values.
        chosen = (mapping.key, mapping.value) if name == "key" else (mapping.value,)
        if getattr(given, name) is None and name not in chosen and name in columns:
            none = ", --key '' for no keys," if name == "key" else ""
            raise UnlikeFiles(
                f"{file.path} has a column {name!r}, which the files before it do not have: give "
                f"--{name} COLUMN{none} or load it by itself"
            )
