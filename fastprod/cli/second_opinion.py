"""Compares our CRC-32C with that of the package crc32c, which shares no code with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import crc32c as package

from fastprod._core.bytes import crc32c

# Sizes around the widths and strides of every implementation's loops, and of a batch or two.
_SIZES: Final = (*range(130), *(2**n + more for n in range(8, 18) for more in (-1, 0, 1, 5)))
SAMPLE_COUNT: Final = len(_SIZES)


def crc32c_difference() -> str | None:
    """The first sample for which the two differ, in words; None: they agree.

    Blocks: a few ms.
    """
    for sample in _samples():
        ours, theirs = crc32c.checksum(sample), package.crc32c(sample)
        if ours != theirs:
            return (
                f"{ours:08x} by {crc32c.backend()}, but {theirs:08x} by the package crc32c, of "
                f"{len(sample):,} bytes"
            )
    return None


def _samples() -> Iterator[memoryview]:
    """The same bytes at every call, at every alignment."""
    data = memoryview(random.Random(4).randbytes(max(_SIZES) + 16))
    for number, size in enumerate(_SIZES):
        yield data[number % 16 : number % 16 + size]
