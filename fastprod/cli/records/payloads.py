"""Payloads: the values that `perf` sends, made before the clock starts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import click

LARGEST_VALUE_BYTES: Final = 2**28 - 1
"""Size of the largest random value: Python's random numbers have less than 2**31 bits."""

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_POOL_COUNT: Final = 10_000
_POOL_BYTES: Final = 32 * 1024 * 1024
_SEED: Final = 0


class Payloads(Protocol):
    """An endless supply of values."""

    def __iter__(self) -> Iterator[bytes]:
        """The values from the first on."""

    def bytes_of(self, count: int) -> int:
        """How many bytes the first `count` values have."""


class RepeatedPayloads:
    """A list of values, again and again."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self._ends = list(itertools.accumulate(map(len, values), initial=0))

    def __iter__(self) -> Iterator[bytes]:
        return itertools.cycle(self._values)

    def bytes_of(self, count: int) -> int:
        """How many bytes the first `count` values have."""
        rounds, rest = divmod(count, len(self._values))
        return rounds * self._ends[-1] + self._ends[rest]


class MonotonicPayloads:
    """The numbers 0, 1, 2, ... as decimal text."""

    def __iter__(self) -> Iterator[bytes]:
        return map(b"%d".__mod__, itertools.count())

    def bytes_of(self, count: int) -> int:
        """How many bytes the first `count` values have."""
        total, digits, first = 0, 1, 0
        while first < count:
            end = 10**digits
            total += digits * (min(end, count) - first)
            digits, first = digits + 1, end
        return total


def random_payloads(size_bytes: int, count: int) -> RepeatedPayloads:
    """Values of random letters A-Z: at most 10,000 different ones, in at most 32 MiB."""
    different = max(1, min(count, _POOL_COUNT, _POOL_BYTES // size_bytes))
    source = random.Random(_SEED)
    letters = bytes(_LETTERS[byte % len(_LETTERS)] for byte in range(256))
    return RepeatedPayloads(
        [source.randbytes(size_bytes).translate(letters) for _ in range(different)]
    )


def file_payloads(path: Path, delimiter: bytes) -> RepeatedPayloads:
    """The parts of a file, in its order; a delimiter at its end makes no empty last part.

    Raises:
        click.UsageError: the file cannot be read, or is empty.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    if not data:
        raise click.UsageError(f"{path} is empty: it has no payload")
    return RepeatedPayloads(data.removesuffix(delimiter).split(delimiter))
