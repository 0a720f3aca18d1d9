"""BetweenLines: something that happens before one line of a call, as a thread or signal may do."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

PATIENCE_S = 20.0


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


def interrupted_in_each_line_of_threading(
    call: Callable[[], object], other: Callable[[], object]
) -> None:
    """Make a call again and again, and have Ctrl-C come before each of the lines that it runs of
    the module threading; after each, another thread's call must come to its end."""
    line = 1
    while not interrupted(call, "threading.py", line):
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"a lock is held for ever after Ctrl-C before line {line}"
        line += 1
