"""LineBlocks: reads the lines that begin in a split of a file, some megabytes at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import pyarrow

from fastprod.load.input_files import InputError, compression_of

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""How much is read at once, unless a line is longer."""
MOST_LINE_BYTES: Final = 256 * 1024 * 1024
"""Largest size of a line: a worker holds it in memory as a whole."""
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark: no text at the beginning of a file, text anywhere else."""

_BUFFER_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class LineBlock:
    r"""Whole lines of a file.

    Attributes:
        path: of the file.
        offset: of the first byte in the decompressed file.
        data: the lines; each but the file's last one ends with \n.
    """

    path: str
    offset: int
    data: bytes

    def after(self, offset: int) -> LineBlock:
        """The part from an offset of the file on."""
        cut = max(0, offset - self.offset)
        return LineBlock(self.path, self.offset + cut, self.data[cut:]) if cut else self

    def check_text(self) -> None:
        """Refuse bytes that are not UTF-8: Spark would replace them.

        Raises:
            InputError: in which line they are.
        """
        try:
            if not self.data.isascii():
                self.data.decode()
        except UnicodeDecodeError as error:
            number = self.line_number(self.data.count(b"\n", 0, error.start))
            raise InputError(
                f"line {number:,} is not UTF-8; spark-load reads other encodings, by -O encoding="
            ) from error

    def line_number(self, index: int = 0) -> int:
        """The line number in the file, from 1, of a line here; reads the file up to here."""
        count, left = 0, self.offset
        with opened(self.path) as file:
            while left and (chunk := file.read(min(left, BLOCK_BYTES))):
                count += chunk.count(b"\n")
                left -= len(chunk)
        return count + index + 1


def opened(path: str) -> io.BufferedReader:
    """The file's bytes, decompressed."""
    # Arrow's own streams do not read lines.
    stream = pyarrow.input_stream(path, compression=compression_of(path))
    return io.BufferedReader(cast(io.RawIOBase, stream), _BUFFER_BYTES)


def line_blocks(
    path: str, start: int = 0, stop: int | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[LineBlock]:
    r"""Yield the lines that begin in a range of a file, without a byte order mark.

    Lines end with \n here; a caller to whom \r ends a line too gets whole lines all the same.

    Args:
        path: of the file.
        start: of the range; 0 if the file is compressed.
        stop: of the range; None: the file's end.
        block_bytes: about how much to read at once.

    Raises:
        InputError: a line has more than `MOST_LINE_BYTES`.
        OSError: the file cannot be read.
    """
    with opened(path) as file:
        at = _line_start(file, start)
        if stop is not None and not start:
            # The first line belongs to the first range, even if that has only the byte order mark.
            stop = max(stop, at + 1)
        rest = b""
        while stop is None or at < stop:
            chunk = file.read(max(block_bytes, len(rest)))
            data = rest + chunk
            _check_length(path, at, data, len(rest))
            if chunk:
                end = -1 if stop is None else data.find(b"\n", max(0, stop - 1 - at))
                is_last = end >= 0
                end = end if is_last else data.rfind(b"\n", len(rest))
            else:
                end, is_last = len(data) - 1, True
            if end >= 0:
                yield LineBlock(path, at, data[: end + 1])
            if is_last:
                return
            rest, at = data[end + 1 :], at + end + 1


def _check_length(path: str, at: int, data: bytes, known: int) -> None:
    """Refuse a first line that is too long; its end is not in the first `known` bytes."""
    if len(data) <= MOST_LINE_BYTES:
        return
    if (data.find(b"\n", known) + 1 or len(data)) > MOST_LINE_BYTES:
        number = LineBlock(path, at, b"").line_number()
        raise InputError(
            f"line {number:,} has more than {MOST_LINE_BYTES:,} bytes, the most that is read "
            f"here; spark-load -O mode=PERMISSIVE may read it"
        )


def _line_start(file: io.BufferedReader, start: int) -> int:
    """Seek the first line that begins at an offset or behind it; return its offset."""
    if not start:
        if file.peek(len(BOM)).startswith(BOM):
            return len(file.read(len(BOM)))
        return 0
    at = start - 1
    file.seek(at)
    while chunk := file.read(_BUFFER_BYTES):
        newline = chunk.find(b"\n") + 1
        at += newline or len(chunk)
        if newline:
            break
    file.seek(at)
    return at
