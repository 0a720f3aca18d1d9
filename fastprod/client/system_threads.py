"""The module `threading`, also where gevent or eventlet have put theirs in its place."""

from __future__ import annotations

import _thread
import functools
import sys
import threading
from types import ModuleType
from typing import Any


def threads() -> Any:
    """Return `threading`, or a copy of it whose threads and locks are the system's.

    gevent and eventlet patch `threading`, so that its threads are turns of one thread of the
    system. The producer waits outside of Python for what its threads do, and such turns would
    never come.

    Never blocks.  Threads: any.
    """
    return threading if _thread.start_new_thread.__module__ == "_thread" else _unpatched()


@functools.cache
def _unpatched() -> Any:
    patched = sys.modules["_thread"]
    sys.modules["_thread"] = _fresh("_thread")  # what `threading` is made of
    try:
        module = _fresh("threading")
    finally:
        sys.modules["_thread"] = patched
    run = module.Thread.run

    def run_and_leave(thread: threading.Thread) -> None:
        try:
            run(thread)
        finally:
            _leave_gevent()

    module.Thread.run = run_and_leave
    return module


def _leave_gevent() -> None:
    """Close the event loop that gevent made if this thread looked up a name, logged, or the like.

    It does so itself for its own threads only.
    """
    local = sys.modules.get("gevent._hub_local")
    hub = None if local is None else local.get_hub_if_exists()
    if hub is not None:
        hub.destroy(destroy_loop=True)


def _fresh(name: str) -> ModuleType:
    """Import a module once more, beside the one that all others see."""
    import importlib.util  # noqa: PLC0415

    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
