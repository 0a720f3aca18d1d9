"""How the broker's threads start and end: neither may fail, or wait, without a bound."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

END_TIMEOUT_S: Final = 10.0
"""How long anything of a broker may take to end."""


def try_start(name: str, run: Callable[[], None]) -> threading.Thread | None:
    """Start a daemon thread that calls `run`; None, and a line in the log: the system has none."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        _log.exception("%s: no thread can be had", name)
        return None
    return thread


def await_end(thread: threading.Thread | None) -> None:
    """Wait for the end of a thread that was told to end; for none, or this one, do nothing.

    Raises:
        TimeoutError: it still runs after `END_TIMEOUT_S`; it is a daemon, and keeps nobody alive.
    """
    if thread is None or thread is threading.current_thread():
        return
    thread.join(END_TIMEOUT_S)
    if thread.is_alive():
        raise TimeoutError(f"{thread.name} has not ended within {END_TIMEOUT_S:g} s")
