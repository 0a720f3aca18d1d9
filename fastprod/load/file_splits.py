"""FileSplit: a part of a file that one task loads: row groups, a range of lines, or all of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow
import pyarrow.parquet

from fastprod.load.input_files import InputError, InputFile, compression_of

SPLIT_BYTES: Final = 32 * 1024 * 1024
"""Default size of a split, in bytes of the file."""


@dataclass(frozen=True)
class FileSplit:
    """A part of a file; plain data.

    Attributes:
        file: as it was found.
        unit: what `start` and `stop` count: "row_groups", "bytes", or "file" for all of it.
        start: the first.
        stop: one past the last.
        size_bytes: bytes of the file in this split; for Parquet an estimate.
    """

    file: InputFile
    unit: str
    start: int
    stop: int
    size_bytes: int

    @property
    def path(self) -> str:
        """Of the file."""
        return self.file.path

    def __str__(self) -> str:
        if self.unit == "file":
            return self.path
        what = "row groups" if self.unit == "row_groups" else "bytes"
        return f"{self.path}, {what} {self.start:,} to {self.stop - 1:,}"


def split_file(
    file: InputFile, kind: str, target_bytes: int = SPLIT_BYTES, *, by_lines: bool = True
) -> list[FileSplit]:
    """Cut a file where it can be cut.

    Args:
        file: which.
        kind: parquet, csv, json or text.
        target_bytes: wanted size of a part; parts may be larger or smaller.
        by_lines: whether each line of text is a row, so that it can be cut between lines.

    Raises:
        InputError: a Parquet file cannot be read as one.
    """
    if kind == "parquet":
        return list(_row_groups(file, target_bytes))
    if not file.size_bytes:
        return []
    if compression_of(file.path) is not None or not by_lines:
        return [FileSplit(file, "file", 0, 1, file.size_bytes)]
    count = max(1, -(-file.size_bytes // target_bytes))
    bounds = [file.size_bytes * index // count for index in range(count + 1)]
    return [
        FileSplit(file, "bytes", start, stop, stop - start)
        for start, stop in itertools.pairwise(bounds)
    ]


def _row_groups(file: InputFile, target_bytes: int) -> Iterator[FileSplit]:
    try:
        metadata = pyarrow.parquet.read_metadata(file.path)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file.path} cannot be read as Parquet: {error}") from error
    sizes = [metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)]
    scale = file.size_bytes / max(sum(sizes), 1)
    start, gathered = 0, 0.0
    for index, (size, following) in enumerate(zip(sizes, [*sizes[1:], 0], strict=True)):
        gathered += size * scale
        # Whichever size is nearer: two groups of about the wanted size must not become one part.
        if index == len(sizes) - 1 or gathered + following * scale / 2 >= target_bytes:
            yield FileSplit(file, "row_groups", start, index + 1, round(gathered))
            start, gathered = index + 1, 0.0
