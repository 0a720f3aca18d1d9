"""Target: one parser that fuzzing feeds with bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Target(NamedTuple):
    """A parser, and what it may say of bytes that it does not take.

    Attributes:
        name: of its file in the corpus.
        take: parses one input; whatever it raises but `refusals` is a defect.
        refusals: documented errors.
        seeds: inputs to start from, sound ones.
        is_native: the parser is native code; Python's coverage would tell nothing.
        most_bytes: inputs that are made are no larger.
    """

    name: str
    take: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...] = ()
    seeds: tuple[bytes, ...] = ()
    is_native: bool = False
    most_bytes: int = 2_048

    def __call__(self, data: bytes) -> bool:
        """Parse `data`; whether it was taken."""
        try:
            self.take(data)
        except self.refusals:
            return False
        return True
