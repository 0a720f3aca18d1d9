"""BetweenLines: something that happens before one line of a call, as a thread or signal may do."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class BetweenLines:
    """Makes something happen once, before a line of code of a folder.

    Args:
        folder: a part of the path of the files whose lines count.
        line: before which it happens: 1 is the first that runs.
        happens: called then; it may raise.
    """

    def __init__(self, folder: str, line: int, happens: Callable[[], object]) -> None:
        self._folder = folder
        self._left = line
        self._happens = happens

    @property
    def has_happened(self) -> bool:
        """Whether so many lines have run."""
        return self._left <= 0

    def __call__(self, frame: FrameType, event: str, _: object) -> BetweenLines | None:
        if self._folder not in frame.f_code.co_filename:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                self._happens()
        return self

    def within(self, call: Callable[[], Any]) -> Any:
        """Call it, and return what it returns."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return call()
        finally:
            sys.settrace(before)


def interrupted(call: Callable[[], object], folder: str, line: int) -> bool:
    """Make the call, and have Ctrl-C come before so many lines; was it made by then?"""

    def interrupt() -> None:
        raise KeyboardInterrupt

    lines = BetweenLines(folder, line, interrupt)
    with contextlib.suppress(KeyboardInterrupt):
        lines.within(call)
    return not lines.has_happened
