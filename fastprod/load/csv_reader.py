r"""CSV read without Spark: the rows are those of Spark's reader, or the file is refused.

Without multiLine, Spark parses each line by itself: a line ends with \n, \r or both, a quoted field
ends with its line, and a line with nothing but white space is skipped. Where such a line may be a
row it is one here, and Spark is not let near it (`check_csv`). For pyarrow a quoted field
may go on in the next line. So blocks that contain a quote are checked first: a quoted field must
end with a quote before a separator or the line's end. Quotes in other fields are text to both.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.csv

from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, NeedsSpark
from fastprod.load.line_blocks import BOM, LineBlock, line_blocks
from fastprod.load.reader_options import ReaderOptions
from fastprod.load.record_blocks import WAY_OUT, line_ending, record_blocks, record_pattern

# What Java's trim removes.
_WHITE: Final = bytes(range(33))
_WHITE_LINE: Final = r"^[\x00-\x20]+\z"
_WHITE_ROW: Final = rb"(?:\A|(?<=[\r\n]))[\x00-\x09\x0b\x0c\x0e-\x20]++(?=[\r\n]|\Z)"
_WITHOUT_SPARK: Final = "it can be read without Spark alone: by --engine direct, or after a change"
_HEADER_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class _Layout:
    r"""What is known of a file before its rows are read.

    Attributes:
        options: how it is read.
        names: of the columns, as Spark makes them.
        first_row: where it begins, in bytes of the unpacked file.
        ending: of its lines, \n or \r\n, where quoted fields may have line ends.
    """

    options: ReaderOptions
    names: list[str]
    first_row: int
    ending: bytes


def csv_names(path: str, options: ReaderOptions) -> list[str] | None:
    """The names of a file's columns, as Spark makes them; None: it has no line.

    Raises:
        InputError: the first line cannot be read.
        OSError: the file cannot be read.
    """
    layout = _layout(path, options)
    return None if layout is None else layout.names


def read_csv(
    split: FileSplit, options: ReaderOptions, columns: Sequence[str]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows that begin in a split.

    Args:
        split: of unit "bytes" or "file"; "file" if quoted fields may have line ends.
        options: how it is read.
        columns: names of the columns to return.

    Raises:
        InputError: Spark would read a line differently, or a column is missing.
        OSError: the file cannot be read.
    """
    layout = _layout(split.path, options)
    if layout is None:
        return
    for column in columns:
        if column not in layout.names:
            raise InputError(f"there is no column {column!r}; there are {', '.join(layout.names)}")
    for rows in _rows(split, layout):
        yield from _with_nulls(_read(rows, layout, columns), options).to_batches()


def check_csv(split: FileSplit, options: ReaderOptions) -> None:
    """Refuse what Spark's reader would read differently, or not at all.

    Args:
        split: as of `read_csv`.
        options: how Spark is to read it.

    Raises:
        InputError: in which line it is.
        OSError: the file cannot be read.
    """
    layout = _layout(split.path, options)
    if layout is None:
        return
    for rows in _rows(split, layout):
        table = _read(rows, layout, layout.names)
        _refuse(rows, rows.data.find(b"\0"), "has a NUL, which Spark may take for a comment's mark")
        if _may_be_white(layout) and not options.is_multiline:
            white = re.search(_WHITE_ROW, rows.data)
            at = white.start() if white else -1
            _refuse(rows, at, "has nothing but white space, and Spark would leave it out")
        if options.is_multiline and layout.ending == b"\r\n":
            for column in table.columns:
                found = pyarrow.compute.match_substring(column, layout.ending)
                if pyarrow.compute.any(found).as_py():
                    raise InputError(
                        f"from line {rows.line_number():,} on: quoted fields have the line end "
                        f"\\r\\n, of which Spark would leave \\n; {_WITHOUT_SPARK}"
                    )


def _refuse(block: LineBlock, index: int, what: str) -> None:
    """Refuse the line that has the byte `index`; -1: there is none."""
    if index >= 0:
        number = block.line_number(block.data.count(b"\n", 0, index))
        raise InputError(f"line {number:,} {what}; {_WITHOUT_SPARK}")


def _rows(split: FileSplit, layout: _Layout) -> Iterator[LineBlock]:
    """The blocks of a split, without the header, whose text is known to be readable."""
    options = layout.options
    if options.is_multiline:
        blocks = record_blocks(split.path, options, layout.ending)
    elif split.unit == "file":
        blocks = line_blocks(split.path)
    else:
        blocks = line_blocks(split.path, split.start, split.stop)
    for block in blocks:
        rows = block.after(layout.first_row)
        if rows.data:
            _check_text(rows, options)
            yield rows


def _read(rows: LineBlock, layout: _Layout, columns: Sequence[str]) -> pyarrow.Table:
    try:
        return _table(rows, layout, columns)
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"from line {rows.line_number():,} on: {error}") from error


def _check_text(block: LineBlock, options: ReaderOptions) -> None:
    """Refuse bytes that Spark cannot decode, and quotes that pyarrow takes differently.

    Raises:
        InputError: in which line they are.
    """
    block.check_text()
    index = -1 if options.quote else block.data.find(b"\0")
    if index >= 0:
        number = block.line_number(block.data.count(b"\n", 0, index))
        raise InputError(
            f"line {number:,} has a NUL, which is Spark's quote where none is given; give a "
            f"quote that is not in the file"
        )


def _layout(path: str, options: ReaderOptions) -> _Layout | None:
    """None: the file has no line."""
    ending = b"\n"
    if options.is_multiline:
        ending = line_ending(path)
        blocks = record_blocks(path, options, ending, block_bytes=_HEADER_BYTES)
        record, blank = record_pattern(options, ending).record, b"\r\n"
    else:
        blocks = line_blocks(path, block_bytes=_HEADER_BYTES)
        # Without a header the first line of white space may be a row.
        blank = _WHITE if options.has_header else b"\r\n"
        record = re.compile(rb"[^\n]*\n")
    for block in blocks:
        at = 0
        while at < len(block.data):
            found = record.match(block.data, at)
            end = found.end() if found else len(block.data)
            line = LineBlock(path, block.offset + at, block.data[at:end])
            if line.data.strip(blank):
                first_row = line.offset + (end - at) * options.has_header
                return _Layout(options, _names(line, options, ending), first_row, ending)
            at = end
    return None


def _names(line: LineBlock, options: ReaderOptions, ending: bytes) -> list[str]:
    _check_text(line, options)
    data = line.data.replace(ending, b"\n")
    if not options.is_multiline:
        if options.has_header and b"\r" in data.removesuffix(b"\n").removesuffix(b"\r"):
            raise NeedsSpark(
                f"{line.path}: its lines end with \\r alone, so that none is the header's"
            )
        # The first line, if lines end with \r alone.
        read = _as_spark_reads(line, options, skips_white=options.has_header)
        lines = re.split(rb"[\r\n]+", read)
        data = next(filter(None, lines))
    found = _fields(data, options)
    if not options.has_header:
        return [f"_c{index}" for index in range(len(found))]
    counts = Counter(name.lower() for name in found)
    names = [
        f"_c{index}"
        if name in ("", options.null_value)
        else f"{name}{index}"
        if counts[name.lower()] > 1
        else name
        for index, name in enumerate(found)
    ]
    _check_names(line.path, names)
    return names


def _fields(data: bytes, options: ReaderOptions) -> list[str]:
    """The fields of one line, as text: 007 is a name, and not 7."""
    if b"\r" not in data and (not options.quote or options.quote.encode() not in data):
        return data.removesuffix(b"\n").decode().split(options.separator)
    if not data.endswith(b"\n"):
        data += b"\n"  # pyarrow sees no row in "a," alone
    most = data.count(options.separator.encode()) + 1
    table = pyarrow.csv.read_csv(
        io.BytesIO(_marked(data)),
        # Threads, and blocks of their usual size, cost more than one line takes.
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(data) + 4, autogenerate_column_names=True
        ),
        parse_options=_parse_options(options),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={f"f{index}": pyarrow.string() for index in range(most)}, null_values=[]
        ),
    )
    return [column[0].as_py() for column in table.columns]


def _check_names(path: str, names: list[str]) -> None:
    """Refuse duplicate names, as Spark does: the number that it appends may make two alike.

    Raises:
        InputError: which name.
    """
    counts = Counter(name.lower() for name in names)
    for name in names:
        if counts[name.lower()] > 1:
            raise InputError(
                f"{path}: two columns are named {name!r}, as names that are there twice, or are "
                f"empty, get the column's number: rename them in the file, or give -O header=false"
            )


def _table(block: LineBlock, layout: _Layout, columns: Sequence[str]) -> pyarrow.Table:
    data, options = block.data, layout.options
    if options.is_multiline:
        return _parsed(data, layout, columns)
    has_quotes = bool(options.quote) and options.quote.encode() in data
    is_odd = has_quotes and not _has_paired_quotes(data, options)
    if not is_odd:
        # Perhaps a line has nothing but white space, and so too few fields.
        with contextlib.suppress(pyarrow.ArrowInvalid):
            table = _parsed(data, layout, columns)
            # Fewer rows than lines: some are empty, or a quoted field has a line end.
            if not has_quotes or table.num_rows == _count(data, b"\n"):
                return table
    lines = _as_spark_reads(block, options, skips_white=not _may_be_white(layout))
    return _parsed(lines, layout, columns)


def _has_paired_quotes(data: bytes, options: ReaderOptions) -> bool:
    r"""Whether each first quote follows, and each second precedes, a separator, a \n or a quote.

    Then quoted fields are well formed, if no row has two lines; with `\r` that is not known.
    """
    if b"\r" in data or not data.endswith(b"\n"):
        return False
    read = numpy.frombuffer(data, numpy.uint8)
    beside = numpy.flatnonzero(read == ord(options.quote))
    if len(beside) % 2:
        return False
    # Index -1 is the last byte, a line end, as if it stood before the first.
    beside[0::2] -= 1
    beside[1::2] += 1
    found = read[beside]
    allowed = (found == ord(options.separator)) | (found == ord("\n"))
    return bool((allowed | (found == ord(options.quote))).all())


def _count(data: bytes, byte: bytes) -> int:
    return int(numpy.count_nonzero(numpy.frombuffer(data, numpy.uint8) == ord(byte)))


def _parsed(data: bytes, layout: _Layout, columns: Sequence[str]) -> pyarrow.Table:
    if not data or (data.isspace() and not data.strip(b"\r\n")):
        return pyarrow.table({name: pyarrow.array([], pyarrow.binary()) for name in columns})
    if not data.endswith(b"\n"):
        # If other fields are quoted, pyarrow takes an empty field at the very end for a quoted one.
        data += b"\n"
    data = _marked(data)
    return pyarrow.csv.read_csv(
        pyarrow.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=layout.names
        ),
        parse_options=_parse_options(layout.options),
        convert_options=pyarrow.csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns, pyarrow.binary()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _marked(data: bytes) -> bytes:
    """Put a byte order mark before one that is text, as pyarrow removes the first."""
    return BOM + data if data.startswith(BOM) else data


def _parse_options(options: ReaderOptions) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(
        delimiter=options.separator,
        quote_char=options.quote or False,
        double_quote=True,
        newlines_in_values=options.is_multiline,
    )


def _with_nulls(table: pyarrow.Table, options: ReaderOptions) -> pyarrow.Table:
    """Replace fields that are the text for null by null, quoted or not."""
    if not options.null_value:
        return table
    null = pyarrow.scalar(options.null_value.encode(), pyarrow.binary())
    for index, name in enumerate(table.column_names):
        is_null = pyarrow.compute.equal(table.column(index), null)
        found = pyarrow.compute.if_else(
            is_null, pyarrow.scalar(None, pyarrow.binary()), table.column(index)
        )
        table = table.set_column(index, name, found)
    return table


def _may_be_white(layout: _Layout) -> bool:
    """Whether a line with nothing but white space could have as many fields as columns."""
    return len(layout.names) == 1 or layout.options.separator.encode() in _WHITE


def _as_spark_reads(block: LineBlock, options: ReaderOptions, *, skips_white: bool = True) -> bytes:
    r"""The lines as Spark separates them, empty ones too; each ends with \n.

    Lines of white space are left out with `skips_white`; a line that may be a row is one.

    Raises:
        InputError: pyarrow would take its quotes differently.
    """
    data = block.data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = pyarrow.compute.split_pattern(_one(data), b"\n").values
    is_white = pyarrow.compute.match_substring_regex(lines, _WHITE_LINE)
    if options.quote and options.quote.encode() in data:
        is_plain = pyarrow.compute.match_substring_regex(lines, _plain_line(options))
        index = pyarrow.compute.index(pyarrow.compute.or_(is_plain, is_white), False).as_py()
        if index >= 0:
            raise InputError(
                f"line {block.line_number(index):,}: a quoted field does not end in its line, or "
                f"has text behind its end quote, which Spark and pyarrow do not read alike; "
                f"{WAY_OUT}"
            )
    if not skips_white or not pyarrow.compute.any(is_white).as_py():
        return data
    return b"\n".join(lines.filter(pyarrow.compute.invert(is_white)).to_pylist())


def _plain_line(options: ReaderOptions) -> str:
    """A line whose quotes Spark and pyarrow understand alike."""
    quote, separator = re.escape(options.quote), re.escape(options.separator)
    field = (
        f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{quote}{separator}][^{separator}]*|)"
    )
    return rf"^{field}(?:{separator}{field})*\z"


def _one(data: bytes) -> pyarrow.Array:
    """An array whose one value is `data`, which is not copied."""
    offsets = pyarrow.py_buffer(numpy.array([0, len(data)], numpy.int64))
    buffers = [None, offsets, pyarrow.py_buffer(data)]
    return pyarrow.LargeBinaryArray.from_buffers(pyarrow.large_binary(), 1, buffers)
