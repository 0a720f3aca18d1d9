"""Deadlines of calls with a timeout: a time of the monotonic clock in s; None: no deadline."""

from __future__ import annotations

import threading
import time

_LONGEST_SLICE_S = 0.05


def check_timeout(timeout: float | None) -> None:
    """Refuse a time-out that cannot be.

    Raises:
        ValueError: it is negative, or not a number.
    """
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout = {timeout}: must be 0 or more seconds, or None for no limit")


def slice_s(deadline_s: float | None) -> float:
    """Seconds to wait at once: signals get their turn every 50 ms."""
    if deadline_s is None:
        return _LONGEST_SLICE_S
    return max(0.0, min(_LONGEST_SLICE_S, deadline_s - time.monotonic()))


def time_left_s(deadline_s: float) -> float:
    """Seconds to wait for a thread: at least one, and no more than one can wait."""
    return min(max(1.0, deadline_s - time.monotonic()), threading.TIMEOUT_MAX)
