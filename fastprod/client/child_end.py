"""ChildEnd: the end of a child of multiprocessing, which ends without `atexit`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_AFTER_ALL_OTHERS = -100
"""Its queues have -5: who feeds them may send."""


class ChildEnd:
    """Calls a function when this process ends, if it is a child of multiprocessing.

    Such a child, started by `fork` or `forkserver`, leaves by `os._exit` once its function has
    returned: what `atexit` would call is not called. Its threads may go on after this end.

    Args:
        run: takes nothing, returns nothing.

    Threads: any.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._pid = 0

    def watch(self) -> None:
        """Call it at the end of this process; may be repeated, also after a fork."""
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is None or multiprocessing.parent_process() is None:
            return
        if self._pid != os.getpid():
            from multiprocessing.util import Finalize  # noqa: PLC0415

            Finalize(None, self._run, exitpriority=_AFTER_ALL_OTHERS)
            self._pid = os.getpid()
