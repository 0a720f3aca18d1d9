r"""RecordBlocks: cuts CSV between records, where quoted fields may contain line ends.

A file has one kind of line end, \n or \r\n, that of its first line: where another one is outside
of quotes, Spark and pyarrow differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fastprod.load.input_files import InputError, NeedsSpark
from fastprod.load.line_blocks import BLOCK_BYTES, MOST_LINE_BYTES, LineBlock, line_blocks, opened
from fastprod.load.reader_options import ReaderOptions

WAY_OUT: Final = (
    "give -O multiLine=true if quoted fields have line ends, -O quote= if quotes are plain text; "
    "spark-load -O mode=PERMISSIVE takes what Spark makes of it"
)
"""Advice for quotes that are not understood."""


@dataclass(frozen=True)
class RecordPattern:
    """Patterns of records.

    Attributes:
        record: one record, with its line end.
        records: any number of records.
        begun: the beginning of a record whose end may follow.
    """

    record: re.Pattern[bytes]
    records: re.Pattern[bytes]
    begun: re.Pattern[bytes]


def record_pattern(options: ReaderOptions, ending: bytes) -> RecordPattern:
    """The patterns for a file's kind of line end."""
    separator = re.escape(options.separator.encode())
    quote = re.escape(options.quote.encode())
    plain = rb"[^" + separator + rb"\r\n]*+"
    if quote:
        plain = rb"(?!" + quote + rb")" + plain
        inside = quote + rb"(?:[^" + quote + rb"]++|" + quote + quote + rb")*+"
        field = rb"(?:" + inside + quote + rb"|" + plain + rb")"
        last = rb"(?:" + inside + quote + rb"?+|" + plain + rb")"
    else:
        field = last = plain
    record = field + rb"(?:" + separator + field + rb")*+" + ending
    begun = rb"(?:" + field + separator + rb")*+" + last + rb"\r?+\Z"
    return RecordPattern(
        re.compile(record), re.compile(rb"(?:" + record + rb")*+"), re.compile(begun)
    )


def line_ending(path: str) -> bytes:
    r"""The file's line end, \n or \r\n.

    Raises:
        NeedsSpark: its first line has a \r elsewhere.
        OSError: the file cannot be read.
    """
    with opened(path) as file:
        line = file.readline(MOST_LINE_BYTES)
    ending = b"\r\n" if line.endswith(b"\r\n") else b"\n"
    if b"\r" in line.removesuffix(ending):
        raise NeedsSpark(f"{path}: its lines end with \\r alone")
    return ending


def record_blocks(
    path: str, options: ReaderOptions, ending: bytes, block_bytes: int = BLOCK_BYTES
) -> Iterator[LineBlock]:
    """Yield the file, cut between records.

    Args:
        path: of the file.
        options: separator and quote.
        ending: the file's `line_ending`.
        block_bytes: about how much to read at once.

    Raises:
        InputError: a record has more than `MOST_LINE_BYTES`, or Spark would read it differently.
        OSError: the file cannot be read.
    """
    pattern = record_pattern(options, ending)
    rest, at, least = b"", 0, 0
    for block in line_blocks(path, block_bytes=block_bytes):
        at = at if rest else block.offset
        rest += block.data
        # Data without a whole record is searched again when it has doubled.
        if len(rest) < least:
            continue
        end = _end_of_records(rest, pattern, options, ending)
        if end < len(rest) and not pattern.begun.match(rest, end):
            raise _refusal(LineBlock(path, at + end, b""))
        if end:
            yield LineBlock(path, at, rest[:end])
        rest, at = rest[end:], at + end
        least = 2 * len(rest)
        if least > 2 * MOST_LINE_BYTES:
            raise _refusal(LineBlock(path, at, b""))
    if rest:
        # The last record may have no line end.
        if not pattern.records.fullmatch(rest + ending) and not pattern.records.fullmatch(rest):
            raise _refusal(LineBlock(path, at, b""))
        yield LineBlock(path, at, rest)


def _end_of_records(
    data: bytes, pattern: RecordPattern, options: ReaderOptions, ending: bytes
) -> int:
    if not options.quote or options.quote.encode() not in data:
        returns = data.count(b"\r") if b"\r" in data else 0
        is_alike = returns == (data.count(ending) if ending == b"\r\n" else 0)
        if is_alike and data.endswith(ending) and (returns in (0, data.count(b"\n"))):
            return len(data)
    found = pattern.records.match(data)
    return found.end() if found else 0


def _refusal(block: LineBlock) -> InputError:
    return InputError(
        f"line {block.line_number():,} begins a record that Spark and pyarrow do not read alike, "
        f"or of more than {MOST_LINE_BYTES:,} bytes: a quoted field has text behind its end quote "
        f"or does not end, or line ends differ; {WAY_OUT}"
    )
