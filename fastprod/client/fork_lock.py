"""Locks that the child of a fork can take, whoever held them."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from fastprod._core.delivery.fork_watch import run_in_child
from fastprod.client.system_threads import threads

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_lock() -> threading.RLock:
    """Make a reentrant lock that is free in the child of a fork if another thread held it.

    A call in whose midst a signal's handler forks goes on in the child, where that thread does not
    exist. What the forking thread itself holds stays held: its call gives it back.
    """
    lock: threading.RLock = threads().RLock()
    _locks.add(lock)
    return lock


def _free_locks() -> None:
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()  # as the standard library's own, which offers it to nobody else


run_in_child(_free_locks)
