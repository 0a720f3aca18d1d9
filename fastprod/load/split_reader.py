"""SplitReader: reads parts of files as Arrow batches of records, without Spark.

A batch has the columns `value`, `key`, `partition` and `timestamp`, as far as they are mapped, and
one for each header column, named by `header_field`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.csv_reader import csv_names, read_csv
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, InputFile, NeedsSpark
from fastprod.load.json_reader import json_types, read_json
from fastprod.load.line_blocks import line_blocks
from fastprod.load.reader_options import ReaderOptions

FORMATS: Final = ("parquet", "csv", "json", "text")
"""What can be read without Spark."""

_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 16 * 1024 * 1024
_BUFFER_BYTES: Final = 1024 * 1024


@dataclass(frozen=True)
class SplitReader:
    """How splits are read; plain data, which Spark pickles into its tasks.

    Attributes:
        kind: of the files, one of `FORMATS`.
        mapping: resolved.
        options: of text.
        json_types: types of the columns of JSON, the same for every split.
    """

    kind: str
    mapping: ColumnMapping
    options: ReaderOptions = field(default_factory=ReaderOptions)
    json_types: dict[str, Any] = field(default_factory=dict)

    def batches(self, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
        """Yield the records of a split, in their order.

        Raises:
            InputError: it cannot be read, a column is missing or of a type that cannot be bytes, or
                the file has changed since it was cut, which may be found at the end only.
        """
        read = {
            "parquet": _read_parquet,
            "csv": _read_csv,
            "json": _read_json,
            "text": _read_text,
        }[self.kind]
        split.file.check()
        try:
            for batch in read(self, split):
                if batch.num_rows:
                    yield _records(batch, self.mapping)
        except InputError as error:
            split.file.check()
            raise InputError(f"{split}: {error}") from error
        except (OSError, EOFError, KeyError, pyarrow.ArrowException) as error:
            split.file.check()
            raise InputError(f"{split} cannot be read as {self.kind}: {error}") from error
        split.file.check()


def header_field(index: int) -> str:
    """Name of the batch's column for the mapping's header column `index`."""
    return f"header.{index}"


def columns_of(
    files: Sequence[InputFile], kind: str, options: ReaderOptions, mapping: ColumnMapping
) -> dict[str, pyarrow.DataType] | None:
    """The columns of files, and their types as far as they are needed; None: there is no line.

    For Parquet and CSV those of the first file that has any: each split checks its own file.

    Raises:
        InputError: a file cannot be read in that format.
    """
    if kind == "text":
        return {"value": pyarrow.binary()}
    if kind == "json":
        return json_types([file.path for file in files], mapping)
    for file in filter(lambda file: file.size_bytes, files):
        try:
            if kind == "parquet":
                return parquet_types(file.path)
            names = csv_names(file.path, options)
        except (OSError, EOFError, pyarrow.ArrowException) as error:
            raise InputError(f"{file.path} cannot be read as {kind}: {error}") from error
        if names is not None:
            return dict.fromkeys(names, pyarrow.string())
    return None


def check_types(mapping: ColumnMapping, types: dict[str, pyarrow.DataType]) -> None:
    """Refuse columns of types whose text only Spark writes in the same way.

    Raises:
        NeedsSpark: mapping has such a column, and which.
    """
    payloads = [mapping.value, mapping.key, *(column for _, column in mapping.header_columns)]
    for column in filter(None, payloads):
        kind = types[column]
        if not _is_bytes(kind) and not _has_plain_text(kind):
            raise NeedsSpark(
                f"column {column!r} is of type {kind}, which is not read without Spark; there are "
                f"strings, binary, integers and booleans"
            )
    if mapping.partition and not pyarrow.types.is_integer(types[mapping.partition]):
        _refuse_type("--partition-column", mapping.partition, types, "an integer")
    if mapping.timestamp:
        kind = types[mapping.timestamp]
        if not pyarrow.types.is_timestamp(kind) and not pyarrow.types.is_integer(kind):
            _refuse_type("--timestamp-column", mapping.timestamp, types, "a timestamp, or ms")
        if pyarrow.types.is_timestamp(kind) and kind.tz is None:
            raise NeedsSpark(
                f"--timestamp-column: the times of column {mapping.timestamp!r} have no time zone; "
                f"Spark takes them as of its session's"
            )


def _refuse_type(option: str, column: str, types: dict[str, pyarrow.DataType], wanted: str) -> None:
    raise NeedsSpark(f"{option}: column {column!r} is of type {types[column]}, not {wanted}")


def parquet_types(source: str | pyarrow.parquet.ParquetFile) -> dict[str, pyarrow.DataType]:
    """The columns of a file; INT96, Spark's older form of a timestamp, is an instant."""
    metadata = pyarrow.parquet.read_metadata(source) if isinstance(source, str) else source.metadata
    parquet = metadata.schema
    columns = [parquet.column(index) for index in range(len(parquet.names))]
    instants = {each.path for each in columns if each.physical_type == "INT96"}
    instant = pyarrow.timestamp("ns", "UTC")
    return {
        field.name: instant if field.name in instants else field.type
        for field in parquet.to_arrow_schema()
    }


def _read_parquet(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    with pyarrow.parquet.ParquetFile(
        split.path,
        # INT96 in milliseconds, Kafka's unit: no value overflows.
        coerce_int96_timestamp_unit="ms",
        # Without this the whole row group is read before its first row.
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
    ) as file:
        types = parquet_types(file)
        _require(reader.mapping.columns, list(types))
        check_types(reader.mapping, types)
        groups = range(split.start, split.stop)
        yield from file.iter_batches(
            batch_size=_batch_rows(file.metadata, groups, reader.mapping.columns),
            row_groups=groups,
            columns=reader.mapping.columns,
            use_threads=False,
        )


def _batch_rows(
    metadata: pyarrow.parquet.FileMetaData, groups: range, columns: Sequence[str]
) -> int:
    """How many rows to read at once: of large ones so few that a batch stays small."""
    fewest = _BATCH_ROWS
    for group in map(metadata.row_group, groups):
        chunks = map(group.column, range(group.num_columns))
        size = sum(
            chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns
        )
        if group.num_rows:
            fewest = min(fewest, _BATCH_BYTES * group.num_rows // max(size, 1))
    return max(fewest, 1)


def _read_csv(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    return read_csv(split, reader.options, reader.mapping.columns)


def _read_json(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    return read_json(split, {name: reader.json_types[name] for name in reader.mapping.columns})


def _read_text(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    is_all = split.unit == "file"
    for block in line_blocks(split.path, *(() if is_all else (split.start, split.stop))):
        yield _lines(block.data)


def _lines(data: bytes) -> pyarrow.RecordBatch:
    r"""As Hadoop does it: a line ends with \n, \r\n or \r."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = pyarrow.array([data.removesuffix(b"\n")], pyarrow.large_binary())
    return pyarrow.record_batch([pyarrow.compute.split_pattern(text, b"\n").values], ["value"])


def _require(columns: Sequence[str], names: Sequence[str]) -> None:
    for column in columns:
        if column not in names:
            raise InputError(f"there is no column {column!r}; there are {', '.join(names)}")


def _records(batch: pyarrow.RecordBatch, mapping: ColumnMapping) -> pyarrow.RecordBatch:
    columns: dict[str, pyarrow.Array] = {}
    if mapping.value is not None:
        columns["value"] = _payload(batch, mapping.value)
    if mapping.key:
        columns["key"] = _payload(batch, mapping.key)
    if mapping.partition:
        columns["partition"] = batch.column(mapping.partition).cast(pyarrow.int32())
    if mapping.timestamp:
        times = batch.column(mapping.timestamp)
        if pyarrow.types.is_integer(times.type):
            times = times.cast(pyarrow.int64()).cast(pyarrow.timestamp("ms"))
        # Nanoseconds are cut off; a value too large for microseconds must not overflow.
        is_fine = times.type.unit == "ns"
        columns["timestamp"] = times.cast(pyarrow.timestamp("us"), safe=not is_fine)
    for index, (_, column) in enumerate(mapping.header_columns):
        columns[header_field(index)] = _payload(batch, column)
    return pyarrow.record_batch(list(columns.values()), list(columns))


def _payload(batch: pyarrow.RecordBatch, name: str) -> pyarrow.Array:
    column = batch.column(name)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_bytes(column.type):
        return column
    if _has_plain_text(column.type):
        return column.cast(pyarrow.string())
    raise InputError(f"column {name!r} is of type {column.type} here, which has no bytes")


def _is_bytes(kind: pyarrow.DataType) -> bool:
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pyarrow.types.is_string(kind)
        or pyarrow.types.is_large_string(kind)
        or pyarrow.types.is_binary(kind)
        or pyarrow.types.is_large_binary(kind)
    )


def _has_plain_text(kind: pyarrow.DataType) -> bool:
    """Whether Arrow and Spark write values of the type as the same text."""
    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind))
