r"""JSON lines read without Spark: one object in each line, or the file is refused.

pyarrow by itself accepts objects that go on in the next line, and several in one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy
import pyarrow
import pyarrow.json

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, NeedsSpark
from fastprod.load.line_blocks import LineBlock, line_blocks

_PROBE_BYTES: Final = 1024 * 1024
_NEWLINE: Final = ord("\n")
_OPENING: Final = ord("{")
_CLOSING: Final = ord("}")
# Arrow's words for values of several types, all of which Spark reads as text.
_OTHER_TYPE: Final = " changed from "
_WAY_OUT: Final = "spark-load -O mode=PERMISSIVE takes what Spark makes of it"


def read_json(
    split: FileSplit, types: Mapping[str, pyarrow.DataType]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows that begin in a split.

    Args:
        split: of unit "bytes" or "file".
        types: of the columns to return.

    Raises:
        InputError: a line is not one object, or a column is of another type.
        OSError: the file cannot be read.
    """
    is_all = split.unit == "file"
    for block in line_blocks(split.path, *(() if is_all else (split.start, split.stop))):
        table = read_objects(block, types)
        if table is not None:
            yield from table.to_batches()


def read_objects(
    block: LineBlock,
    types: Mapping[str, pyarrow.DataType],
    *,
    knows_all: bool = False,
    way_out: str = _WAY_OUT,
) -> pyarrow.Table | None:
    """The objects of a block; None: all lines are empty.

    Args:
        block: of lines.
        types: of the columns to return.
        knows_all: whether other columns are refused.
        way_out: advice for errors.

    Raises:
        InputError: a line is not one object, or a column is of another type.
    """
    options = pyarrow.json.ParseOptions(
        explicit_schema=pyarrow.schema(list(types.items())),
        unexpected_field_behavior="error" if knows_all else "ignore",
    )
    return _objects(block, options, way_out)


def json_types(paths: Iterable[str], mapping: ColumnMapping) -> dict[str, pyarrow.DataType] | None:
    """The columns of files, as far as `mapping` needs them; None: there is no line.

    A column may appear in any line. So all files are searched until every column that is named or
    used by default is known; lines are parsed where one that is not known may be.

    Raises:
        InputError: a line is not an object, or a file cannot be read.
        NeedsSpark: a column has values of several types.
    """
    types: dict[str, pyarrow.DataType] = {}
    is_empty = True
    for path in paths:
        try:
            for block in line_blocks(path, block_bytes=_PROBE_BYTES):
                missing = _missing(mapping, types)
                if not is_empty and not missing:
                    return types
                if is_empty or _may_have(block.data, missing):
                    table = _objects(block, None)
                    if table is not None:
                        is_empty = False
                        _add_types(types, table.schema, mapping)
        except InputError as error:
            raise type(error)(f"{path}: {error}") from error
        except (OSError, EOFError, pyarrow.ArrowException) as error:
            raise InputError(f"{path} cannot be read as json: {error}") from error
    # Spark takes a column that is null everywhere for text.
    known = {
        name: pyarrow.string() if pyarrow.types.is_null(kind) else kind
        for name, kind in types.items()
    }
    return None if is_empty else known


def _missing(mapping: ColumnMapping, types: Mapping[str, pyarrow.DataType]) -> list[str]:
    """Columns that are needed and not known yet; "": any, as the value's column is not known."""
    wanted = mapping.columns
    if mapping.key is None and mapping.value != "key":
        wanted.append("key")
    if mapping.value is None:
        wanted += ["value"] if "value" in types else ["value", ""]
    return [name for name in wanted if pyarrow.types.is_null(types.get(name, pyarrow.null()))]


def _may_have(data: bytes, names: Sequence[str]) -> bool:
    """Whether one of the columns may be in the lines, in any spelling of JSON."""
    return "" in names or bool(names_in(data, names))


def names_in(data: bytes, names: Iterable[str]) -> set[str]:
    """Those of the names that may be in the text of objects, in any spelling of JSON."""
    if b"\\u" in data:
        return set(names)
    quoted = {name: json.dumps(name, ensure_ascii=False) for name in names}
    return {name for name, each in quoted.items() if "\\" in each or each.encode() in data}


def _add_types(
    types: dict[str, pyarrow.DataType], schema: pyarrow.Schema, mapping: ColumnMapping
) -> None:
    for column in schema:
        # Text that looks like a time must stay text, as in Spark.
        is_time = pyarrow.types.is_timestamp(column.type)
        kind = pyarrow.string() if is_time else column.type
        known = types.get(column.name, pyarrow.null())
        if pyarrow.types.is_null(known):
            types[column.name] = kind
        elif column.name in mapping.columns and kind not in (known, pyarrow.null()):
            raise NeedsSpark(
                f"column {column.name!r} is of type {known} and of type {kind}, which are read "
                f"together by Spark alone"
            )


def _objects(
    block: LineBlock, options: pyarrow.json.ParseOptions | None, way_out: str = _WAY_OUT
) -> pyarrow.Table | None:
    """The objects of a block; None: all lines are empty."""
    block.check_text()
    count = _count(block, way_out)
    if not count:
        return None
    try:
        table = pyarrow.json.read_json(
            pyarrow.BufferReader(block.data),
            read_options=pyarrow.json.ReadOptions(
                use_threads=False, block_size=len(block.data) + 1
            ),
            parse_options=options,
        )
    except pyarrow.ArrowInvalid as error:
        kind = NeedsSpark if _OTHER_TYPE in str(error) else InputError
        raise kind(f"from line {block.line_number():,} on: {error}; {way_out}") from error
    if table.num_rows != count:
        raise InputError(
            f"from line {block.line_number():,} on: {count:,} lines have {table.num_rows:,} "
            f"objects; {way_out}"
        )
    return table


def _count(block: LineBlock, way_out: str) -> int:
    """How many lines have an object: an object ends where ``}``, a line end and ``{`` follow."""
    data = block.data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    read = numpy.frombuffer(data, numpy.uint8)
    ends = numpy.flatnonzero(read == _NEWLINE)
    if not data.endswith(b"\n"):
        ends = numpy.append(ends, len(data))
    starts = numpy.append(0, ends[:-1] + 1)
    # Where a line is empty, its first byte is a line end.
    is_object = (read[starts] == _OPENING) & (read[ends - 1] == _CLOSING)
    count = len(starts)
    for index in numpy.flatnonzero(~is_object):
        line = data[starts[index] : ends[index]].strip(b" \t")
        if not line:
            count -= 1
        elif not (line.startswith(b"{") and line.endswith(b"}")):
            raise InputError(
                f"line {block.line_number(int(index)):,} is not one JSON object; {way_out}"
            )
    return count
