"""StreamCheck: looks at each file of a stream before Spark's reader is through with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fastprod.load.avro_files import avro_schema
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import (
    TEXTS,
    InputError,
    InputFile,
    check_packing,
    check_pattern,
    compression_of,
    format_of,
)
from fastprod.load.spark_check import SparkCheck
from fastprod.load.typed_files import KINDS, check_typed_files


@dataclass(frozen=True)
class SparkFile:
    """A part of a file as Spark has it.

    Attributes:
        url: of the file.
        start: of the part, in bytes.
        size_bytes: of the part.
        file_bytes: of the file when Spark found it; None: as it is now.
    """

    url: str
    start: int
    size_bytes: int
    file_bytes: int | None = None


@dataclass(frozen=True)
class StreamCheck:
    """What files must be like that come while a stream runs; plain data.

    Attributes:
        kind: the format.
        by_name: whether the names of files have to tell that format.
        text: the check of their text; None: there is none.
        types: of Parquet and ORC: as of `typed_files.typed_columns`; None: any.
        schema: of Avro, as of `avro_files.avro_schema`; None: any.
        needed: columns of Parquet and ORC that each file must have.
    """

    kind: str
    text: SparkCheck | None = None
    types: Mapping[str, str] | None = None
    schema: Any = None
    needed: Sequence[str] = ()
    by_name: bool = False

    def check(self, part: SparkFile) -> None:
        """Look at a part of a file.

        Raises:
            InputError: Spark would leave out, double or change something, and what.
        """
        path = local_path(part.url)
        file = InputFile(path, path, part.start + part.size_bytes, 0)
        self._check_name(file)
        _check_size(path, part.file_bytes)
        if self.text is not None:
            is_whole = compression_of(path) is not None or not self.text.by_lines
            unit, stop = ("file", 1) if is_whole else ("bytes", file.size_bytes)
            self.text.check(FileSplit(file, unit, part.start, stop, part.size_bytes))
        elif self.kind in KINDS and (self.types is not None or self.needed):
            check_typed_files([file], self.kind, needed=self.needed, types=self.types)
        elif self.schema is not None and avro_schema(path) != self.schema:
            raise InputError(
                f"{path} has another schema than the files before it: Spark would read it by "
                f"theirs; name the columns by --schema"
            )

    def _check_name(self, file: InputFile) -> None:
        check_pattern(file.path)
        if self.kind in TEXTS:
            check_packing([file], is_spark=True)
        if self.by_name and format_of([file.path]) != self.kind:
            raise InputError(
                f"{file.path} is none of {self.kind} by its name, as the files before it are: give "
                f"--format {self.kind} to read all files so"
            )


def local_path(url: str) -> str:
    """The path of a file of this machine by the URL that Spark has of it."""
    return unquote(urlsplit(url).path)


def _check_size(path: str, size_bytes: int | None) -> None:
    """Refuse a file that is not what Spark reads.

    Raises:
        InputError: its size has changed since Spark found it.
    """
    try:
        now = Path(path).stat().st_size
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if size_bytes not in (None, now):
        raise InputError(
            f"{path} had {size_bytes:,} bytes when Spark found it, and has {now:,} now: files are "
            f"to be written elsewhere and moved into the folder; the stream reads it as it is when "
            f"it is started again"
        )
