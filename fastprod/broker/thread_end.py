"""The end of a thread of the broker's own, waited for no longer than it may take."""

from __future__ import annotations

import threading
from typing import Final

END_TIMEOUT_S: Final = 10.0
"""How long anything of a broker may take to end."""


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
