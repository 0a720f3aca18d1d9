"""StreamCheck: looks at each file of a stream before Spark's reader is through with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from fastprod.load.avro_files import avro_schema
from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, InputFile, compression_of
from fastprod.load.spark_check import SparkCheck
from fastprod.load.typed_files import KINDS, check_typed_files


@dataclass(frozen=True)
class StreamCheck:
    """What files must be like that come while a stream runs; plain data.

    Attributes:
        kind: the format.
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

    def check(self, url: str, start: int, size_bytes: int) -> None:
        """Look at a part of a file.

        Args:
            url: of the file, as Spark has it.
            start: of the part, in bytes.
            size_bytes: of the part.

        Raises:
            InputError: Spark would leave out or change something, and what.
        """
        path = unquote(urlsplit(url).path)
        file = InputFile(path, path, start + size_bytes, 0)
        if self.text is not None:
            is_whole = compression_of(path) is not None or not self.text.by_lines
            unit, stop = ("file", 1) if is_whole else ("bytes", start + size_bytes)
            self.text.check(FileSplit(file, unit, start, stop, size_bytes))
        elif self.kind in KINDS and (self.types is not None or self.needed):
            check_typed_files([file], self.kind, needed=self.needed, types=self.types)
        elif self.schema is not None and avro_schema(path) != self.schema:
            raise InputError(
                f"{path} has another schema than the files before it: Spark would read it by "
                f"theirs; name the columns by --schema"
            )
