"""ChildEnd: the end of a child of multiprocessing, which ends without `atexit`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

_AFTER_ALL_OTHERS = -100
"""Its queues have -5: who feeds them may send."""

_LOOK_AGAIN_S = 0.01


class ChildEnd:
    """Calls a function when this process ends, if it is a child of multiprocessing.

    Such a child, started by `fork` or `forkserver`, leaves by `os._exit` once its function has
    returned and its threads are done: what `atexit` would call is not called. As there, only daemon
    threads still run when the function is called.

    Args:
        run: takes nothing, returns nothing; may be called by a thread of its own.

    Threads: any.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._pid = 0
        self._hears_of_children = False

    def watch(self) -> None:
        """Call it at the end of this process; may be repeated, also after a fork."""
        util = sys.modules.get("multiprocessing.util")
        if util is None:
            return
        if not self._hears_of_children:
            # A child of a forkserver makes its arguments before it counts as a child, and as it
            # begins it forgets what was to be called at its end.
            util.register_after_fork(self, ChildEnd.watch)
            self._hears_of_children = True
        from multiprocessing.process import parent_process  # noqa: PLC0415

        if parent_process() is None or self._pid == os.getpid():
            return
        if util.is_exiting():
            self._await_threads()  # this one goes on after the child's function
        else:
            util.Finalize(None, self._begin, exitpriority=_AFTER_ALL_OTHERS)
        self._pid = os.getpid()

    def _begin(self) -> None:
        if threading.main_thread().is_alive():  # else it is a fork of a child, and `atexit` calls
            self._await_threads()

    def _await_threads(self) -> None:
        """The child's function has returned; its threads may still have to send.

        They are waited for after all finalizers, and so is this one.
        """
        end = threading.Thread(
            target=self._run_after_threads, name="fastprod-child-end", daemon=False
        )
        try:
            end.start()
        except RuntimeError:  # the system gives no thread
            self._run()

    def _run_after_threads(self) -> None:
        passed_over = (threading.main_thread(), threading.current_thread())
        while any(t not in passed_over and not t.daemon for t in threading.enumerate()):
            time.sleep(_LOOK_AGAIN_S)  # `join` may fail if the main thread joins, too
        self._run()
