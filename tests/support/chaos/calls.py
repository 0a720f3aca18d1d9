"""Calls: each call of a producer has a bound, and somebody looks whether it is kept."""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import threading
import time
from collections.abc import Iterator

GRACE_S = 10.0
_LOOK_S = 0.5


class Calls:
    """Who is in a call, since when, and until when at most. For a `with`; it has a thread.

    `violations` are calls that took longer than their bounds and `GRACE_S`; the stacks of all
    threads are written to standard error when one is found, even if it never returns.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="calls")
        self.violations: list[str] = []
        self.longest_s: dict[str, float] = {}

    def __enter__(self) -> Calls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @contextlib.contextmanager
    def bounded(self, name: str, bound_s: float) -> Iterator[None]:
        """Around a call that may take so long."""
        me = threading.get_ident()
        began_s = time.monotonic()
        with self._lock:
            self._open[me] = (name, began_s + bound_s + GRACE_S)
        try:
            yield
        finally:
            took_s = time.monotonic() - began_s
            with self._lock:
                is_known = self._open.pop(me)[1] == 0.0
                kind = name.rpartition(" ")[2]
                self.longest_s[kind] = max(took_s, self.longest_s.get(kind, 0.0))
            if took_s > bound_s + GRACE_S and not is_known:
                self.violations.append(f"{name} took {took_s:.1f} s, its bound is {bound_s:.1f} s")

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            now_s = time.monotonic()
            with self._lock:
                late = {
                    me: name
                    for me, (name, until_s) in self._open.items()
                    if until_s and now_s > until_s
                }
                for me, name in late.items():
                    self._open[me] = (name, 0.0)
            for name in late.values():
                self.violations.append(f"{name} hangs")
                print(f"{name} hangs", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(2, all_threads=True)
