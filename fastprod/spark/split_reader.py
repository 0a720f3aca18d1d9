"""SplitReader: parts of files as Arrow batches of records, without Spark and without its types.

A batch has the columns `value`, `key`, `partition` and `timestamp`, as far as they are mapped, and
one for each header column, named by `header_field`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, cast

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from fastprod.spark.column_mapping import ColumnMapping
from fastprod.spark.file_splits import FileSplit
from fastprod.spark.input_files import InputError, InputFile, NeedsSpark, compression_of
from fastprod.spark.reader_options import ReaderOptions

FORMATS: Final = ("parquet", "csv", "json", "text")
"""What can be read without Spark."""

_BATCH_ROWS: Final = 16_384
_BLOCK_BYTES: Final = 4 * 1024 * 1024
_BUFFER_BYTES: Final = 256 * 1024
_PROBE_BYTES: Final = 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class SplitReader:
    """How splits are read; plain data, which Spark pickles into its tasks.

    Attributes:
        kind: of the files, one of `FORMATS`.
        mapping: resolved.
        options: of text.
        json_types: what the columns of JSON are, so that every split takes them alike.
    """

    kind: str
    mapping: ColumnMapping
    options: ReaderOptions = field(default_factory=ReaderOptions)
    json_types: dict[str, Any] = field(default_factory=dict)

    def batches(self, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
        """Yield the records of a split, in their order.

        Raises:
            InputError: it cannot be read, a column is missing, or of a type that has no bytes.
        """
        read = {
            "parquet": _read_parquet,
            "csv": _read_csv,
            "json": _read_json,
            "text": _read_text,
        }[self.kind]
        try:
            for batch in read(self, split):
                if batch.num_rows:
                    yield _records(batch, self.mapping)
        except InputError as error:
            raise InputError(f"{split}: {error}") from error
        except (OSError, EOFError, KeyError, pyarrow.ArrowException) as error:
            raise InputError(f"{split} cannot be read as {self.kind}: {error}") from error


def header_field(index: int) -> str:
    """The column of a batch that has the values of the mapping's header column `index`."""
    return f"header.{index}"


def columns_of(file: InputFile, kind: str, options: ReaderOptions) -> dict[str, pyarrow.DataType]:
    """The columns of a file, and their types as far as the file tells them.

    Raises:
        InputError: it cannot be read as that kind.
    """
    try:
        if kind == "parquet":
            schema = _parquet_schema(file.path)
        elif kind == "text":
            return {"value": pyarrow.binary()}
        elif kind == "csv":
            return dict.fromkeys(_csv_names(file.path, options), pyarrow.string())
        else:
            schema = _json_schema(file.path)
    except (OSError, EOFError, pyarrow.ArrowException) as error:
        raise InputError(f"{file.path} cannot be read as {kind}: {error}") from error
    return {each.name: each.type for each in schema}


def check_types(mapping: ColumnMapping, types: dict[str, pyarrow.DataType]) -> None:
    """Refuse columns whose text only Spark makes as Spark makes it.

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


def _parquet_schema(path: str) -> pyarrow.Schema:
    """The file's, in which INT96, Spark's older form, is the instant that it stands for."""
    parquet = pyarrow.parquet.read_metadata(path).schema
    columns = [parquet.column(index) for index in range(len(parquet.names))]
    instants = {each.path for each in columns if each.physical_type == "INT96"}
    instant = pyarrow.timestamp("ns", "UTC")
    schema = parquet.to_arrow_schema()
    return pyarrow.schema(
        [field.with_type(instant) if field.name in instants else field for field in schema]
    )


def _read_parquet(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    # INT96 in milliseconds, Kafka's unit: no instant of it wraps around.
    with pyarrow.parquet.ParquetFile(split.path, coerce_int96_timestamp_unit="ms") as file:
        names = file.schema_arrow.names
        _require(reader.mapping.columns, names)
        yield from file.iter_batches(
            batch_size=_BATCH_ROWS,
            row_groups=range(split.start, split.stop),
            columns=reader.mapping.columns,
            use_threads=False,
        )


def _read_csv(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    options, mapping = reader.options, reader.mapping
    names = _csv_names(split.path, options)
    _require(mapping.columns, names)
    stream = _open_lines(split, skips_first=options.has_header)
    if stream is None:
        return
    kinds: dict[str, pyarrow.DataType] = dict.fromkeys(mapping.columns, pyarrow.binary())
    yield from pyarrow.csv.open_csv(
        stream,
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, block_size=_BLOCK_BYTES, column_names=names
        ),
        parse_options=_csv_parse(options),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=mapping.columns,
            column_types=kinds,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=["", options.null_value],
        ),
    )


def _csv_parse(options: ReaderOptions) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(
        delimiter=options.separator,
        quote_char=options.quote or False,
        double_quote=True,
        newlines_in_values=options.is_multiline,
    )


def _csv_names(path: str, options: ReaderOptions) -> list[str]:
    with _open(path) as file:
        line = file.readline(_PROBE_BYTES).removeprefix(_BOM)
    if not line.strip():
        raise InputError(f"{path} is empty, or begins with an empty line")
    table = pyarrow.csv.read_csv(
        io.BytesIO(line),
        read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True),
        parse_options=_csv_parse(options),
        convert_options=pyarrow.csv.ConvertOptions(null_values=[]),
    )
    if options.has_header:
        if table.num_rows != 1:
            raise NeedsSpark(f"{path}: its lines end with \\r alone, so that none is the header's")
        return [str(column[0].as_py()) for column in table.columns]
    return [f"_c{index}" for index in range(table.num_columns)]


def _read_json(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    stream = _open_lines(split)
    if stream is None:
        return
    schema = pyarrow.schema([(name, reader.json_types[name]) for name in reader.mapping.columns])
    yield from pyarrow.json.open_json(
        stream,
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        ),
    )


def _json_schema(path: str) -> pyarrow.Schema:
    with _open(path) as file:
        data = file.read(_PROBE_BYTES)
        if len(data) == _PROBE_BYTES:
            data += file.readline()
    if not data.strip():
        raise InputError(f"{path} is empty")
    schema = pyarrow.json.read_json(io.BytesIO(data)).schema
    # What looks like a time is text to everybody else.
    fields = [
        (each.name, pyarrow.string() if pyarrow.types.is_timestamp(each.type) else each.type)
        for each in schema
    ]
    return pyarrow.schema(fields)


def _read_text(reader: SplitReader, split: FileSplit) -> Iterator[pyarrow.RecordBatch]:
    stream = _open_lines(split, keeps_blank=True)
    if stream is None:
        return
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield _lines(whole)
    if rest:
        yield _lines(rest)


def _lines(data: bytes) -> pyarrow.RecordBatch:
    text = pyarrow.array([data], pyarrow.large_binary())
    lines = pyarrow.compute.split_pattern(text, b"\n").values
    if b"\r" in data:
        ends = pyarrow.compute.ends_with(lines, b"\r")
        cut = pyarrow.compute.binary_slice(lines, 0, -1)
        lines = pyarrow.compute.if_else(ends, cut, lines)
    return pyarrow.record_batch([lines], ["value"])


def _open(path: str) -> io.BufferedReader:
    # Arrow's own streams do not read lines.
    stream = pyarrow.input_stream(path, compression=compression_of(path))
    return io.BufferedReader(cast(io.RawIOBase, stream), _BUFFER_BYTES)


def _open_lines(
    split: FileSplit, *, skips_first: bool = False, keeps_blank: bool = False
) -> BinaryIO | None:
    """The lines that begin in a split; None if there is none, which Arrow would not read.

    Args:
        split: of unit "bytes" or "file".
        skips_first: whether the first line of the file is none of them.
        keeps_blank: whether lines of white space count.
    """
    if split.unit == "file":
        stream = _open(split.path)
        if stream.peek(len(_BOM)).startswith(_BOM):
            stream.read(len(_BOM))
        if skips_first:
            stream.readline()
        return stream
    with open(split.path, "rb") as file:  # noqa: PTH123  a path that is text
        if split.start:
            # A line belongs to the split that it begins in.
            file.seek(split.start - 1)
            file.readline()
        elif skips_first:
            file.readline()
        at = file.tell()
        if at >= split.stop:
            return None
        data = file.read(split.stop - at)
        if not data.endswith(b"\n"):
            data += file.readline()
    if not split.start:
        data = data.removeprefix(_BOM)
    return io.BytesIO(data) if data.strip() or (data and keeps_blank) else None


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
        # Nanoseconds are cut off; what is too large for microseconds is not to wrap around.
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
    """Whether Arrow and Spark write the same text."""
    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind))
