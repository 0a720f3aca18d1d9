"""Signals that end a command: SIGTERM and SIGHUP do what Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


def ending_signals() -> list[signal.Signals]:
    """All by which people end a command; nohup has SIGHUP ignored, and it stays so."""
    found = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)  # the terminal was closed
    return found


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """In its `with`, the signals raise KeyboardInterrupt in the main thread.

    By default they end the process at once: lines that were read and not delivered would be lost,
    and files and topics for the time of the command left over. Another thread than the main one
    gets no signals, and nothing changes there.
    """
    kept = {}
    if threading.current_thread() is threading.main_thread():
        kept = {
            number: signal.signal(number, signal.default_int_handler)
            for number in ending_signals()
            if number is not signal.SIGINT
        }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
