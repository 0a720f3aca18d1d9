r"""JSON lines read without Spark: an object a line, or the file is refused.

pyarrow by itself takes objects across lines, as far as its blocks go, and several in one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy
import pyarrow
import pyarrow.json

from fastprod.spark.file_splits import FileSplit
from fastprod.spark.input_files import InputError
from fastprod.spark.line_blocks import LineBlock, line_blocks

_PROBE_BYTES: Final = 1024 * 1024
_NEWLINE: Final = ord("\n")
_OPENING: Final = ord("{")
_CLOSING: Final = ord("}")
_WAY_OUT: Final = "spark-load --engine spark may read it"


def read_json(
    split: FileSplit, types: Mapping[str, pyarrow.DataType]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows that begin in a split.

    Args:
        split: of unit "bytes" or "file".
        types: of the columns that are wanted.

    Raises:
        InputError: a line is not one object, or a column is of another type.
        OSError: the file cannot be read.
    """
    options = pyarrow.json.ParseOptions(
        explicit_schema=pyarrow.schema(list(types.items())), unexpected_field_behavior="ignore"
    )
    is_all = split.unit == "file"
    for block in line_blocks(split.path, *(() if is_all else (split.start, split.stop))):
        table = _objects(block, options)
        if table is not None:
            yield from table.to_batches()


def json_types(path: str) -> dict[str, pyarrow.DataType]:
    """The columns that the first lines of a file tell.

    Raises:
        InputError: there is no line, or one that is not an object.
        OSError: the file cannot be read.
    """
    for block in line_blocks(path, block_bytes=_PROBE_BYTES):
        table = _objects(block, None)
        if table is not None:
            return {each.name: _as_told(each.type) for each in table.schema}
    raise InputError(f"{path} is empty")


def _as_told(kind: pyarrow.DataType) -> pyarrow.DataType:
    """What looks like a time is text to everybody else."""
    return pyarrow.string() if pyarrow.types.is_timestamp(kind) else kind


def _objects(block: LineBlock, options: pyarrow.json.ParseOptions | None) -> pyarrow.Table | None:
    """The objects of a block; None: it has but empty lines."""
    block.check_text()
    count = _count(block)
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
        raise InputError(f"from line {block.line_number():,} on: {error}; {_WAY_OUT}") from error
    if table.num_rows != count:
        raise InputError(
            f"from line {block.line_number():,} on: {count:,} lines have {table.num_rows:,} "
            f"objects; {_WAY_OUT}"
        )
    return table


def _count(block: LineBlock) -> int:
    """How many lines have an object; as no object goes on after ``}`` and a line end with ``{``."""
    data = block.data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    read = numpy.frombuffer(data, numpy.uint8)
    ends = numpy.flatnonzero(read == _NEWLINE)
    if not data.endswith(b"\n"):
        ends = numpy.append(ends, len(data))
    starts = numpy.append(0, ends[:-1] + 1)
    # An empty line has a line end where its first byte would be.
    is_object = (read[starts] == _OPENING) & (read[ends - 1] == _CLOSING)
    count = len(starts)
    for index in numpy.flatnonzero(~is_object):
        line = data[starts[index] : ends[index]].strip(b" \t")
        if not line:
            count -= 1
        elif not (line.startswith(b"{") and line.endswith(b"}")):
            raise InputError(
                f"line {block.line_number(int(index)):,} is not one JSON object; {_WAY_OUT}"
            )
    return count
