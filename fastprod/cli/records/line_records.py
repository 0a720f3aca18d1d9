"""LineRecords: the lines of a file or pipe as keys and values, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

_SKIP_BYTES: Final = 65_536


class LineRecords:
    r"""One record for each line; iterate once.

    A line ends at \n, which is not part of it; every other byte is, also \r. The last line needs no
    \n. An empty line is a record with an empty value.

    Args:
        stream: binary, such as sys.stdin.buffer.
        key_separator: what stands between key and value, or b"": values only.
        limit_bytes: a longer line is refused and skipped, without reading it into memory.
        refuse: called with the reason for each line that is no record.

    Yields: (key, value); key is None without `key_separator`.
    """

    def __init__(
        self,
        stream: BinaryIO,
        key_separator: bytes,
        limit_bytes: int,
        refuse: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._key_separator = key_separator
        self._limit_bytes = limit_bytes
        self._refuse = refuse

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes]]:
        separator = self._key_separator
        for number, line in self._lines():
            if not separator:
                yield None, line
                continue
            key, found, value = line.partition(separator)
            if found:
                yield key, value
            else:
                self._refuse(f"line {number:,} has no key separator {separator!r}")

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        readline, limit = self._stream.readline, self._limit_bytes
        number = 0
        while line := readline(limit + 1):
            number += 1
            if line.endswith(b"\n"):
                yield number, line[:-1]
            elif len(line) <= limit:
                yield number, line
            else:
                self._refuse(f"line {number:,} is longer than max.request.size = {limit:,} bytes")
                self._skip_line()

    def _skip_line(self) -> None:
        while True:
            rest = self._stream.readline(_SKIP_BYTES)
            if not rest or rest.endswith(b"\n"):
                return
