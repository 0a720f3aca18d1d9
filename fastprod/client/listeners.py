"""Listeners: who is told, in any thread, that there is something new to look at."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.client.fork_lock import fork_lock


class Listeners:
    """Functions without arguments that are called at each change.

    They must neither block nor raise, and take no lock: whoever tells may hold one.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = fork_lock()  # a signal handler may add one in the midst of an add
        self._functions: tuple[Callable[[], object], ...] = ()

    def add(self, function: Callable[[], object]) -> None:
        """Call it at each change from now on."""
        with self._lock:
            self._functions = (*self._functions, function)

    def remove(self, function: Callable[[], object]) -> None:
        """Call it no more; a call that has begun may still come to its end."""
        with self._lock:
            self._functions = tuple(each for each in self._functions if each != function)

    def tell(self) -> None:
        """Something changed."""
        for function in self._functions:
            function()
