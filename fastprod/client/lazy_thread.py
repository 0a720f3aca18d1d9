"""LazyThread: a thread that starts when it is first needed, whatever interrupts that."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastprod.client.fork_lock import fork_lock
from fastprod.client.system_threads import threads


class LazyThread:
    """Runs a function on one daemon thread, from the first `start` on.

    Ctrl-C within `threading.Thread.start` leaves open whether the thread runs, and may leave a lock
    of that object locked for ever. So the next `start` takes another object, and whichever thread
    comes first keeps the others from running the function.

    Args:
        run: called once.
        name: the thread's.

    Threads: any.
    """

    def __init__(self, run: Callable[[], None], name: str) -> None:
        self._run = run
        self._name = name
        self._lock = fork_lock()  # a signal handler may start it within a start
        self._is_starting = False
        self._chosen: dict[None, threading.Thread] = {}  # one at most: `setdefault` is atomic

    @property
    def thread(self) -> threading.Thread | None:
        """The one that runs the function, or is about to; None: there is none yet."""
        return self._chosen.get(None)

    def start(self) -> None:
        """Start it, unless that was done; again after a start that failed or was interrupted.

        Raises:
            RuntimeError: the system gives no thread.
        """
        with self._lock:
            if self._is_starting or self._chosen:
                return  # perhaps a signal handler's call, in the midst of its own thread's
            try:
                self._is_starting = True
                thread = threads().Thread(target=self._run_if_first, name=self._name, daemon=True)
                thread.start()
                self._chosen.setdefault(None, thread)
            finally:
                self._is_starting = False

    def _run_if_first(self) -> None:
        this = threads().current_thread()
        if self._chosen.setdefault(None, this) is this:
            self._run()
