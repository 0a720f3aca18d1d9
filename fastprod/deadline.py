"""Deadlines of calls with a timeout: a time of the monotonic clock in s; None: no deadline."""

from __future__ import annotations

import threading
import time

_LONGEST_SLICE_S = 0.05
_LONGEST_RECORD_S = 2_000_000_000  # 63 years; in ns it still fits 64 bits


def check_timeout(timeout: float | None) -> None:
    """Refuse a time-out that cannot be.

    Raises:
        ValueError: it is negative, or not a number.
    """
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout = {timeout}: must be 0 or more seconds, or None for no limit")


def record_deadline_ns(deadline: float) -> int:
    """How long a record with this `deadline` has, in ns, from the call of `send` on.

    Args:
        deadline: seconds, above 0; 63 years at most count.

    Raises:
        ValueError: it is 0 or less, or not a number.
    """
    seconds = float(deadline)
    if not seconds > 0:
        raise ValueError(f"deadline = {deadline}: must be more than 0 seconds, or None")
    return int(min(seconds, _LONGEST_RECORD_S) * 1e9)


def slice_s(deadline_s: float | None) -> float:
    """Seconds to wait at once: signals get their turn every 50 ms."""
    if deadline_s is None:
        return _LONGEST_SLICE_S
    return max(0.0, min(_LONGEST_SLICE_S, deadline_s - time.monotonic()))


def time_left_s(deadline_s: float) -> float:
    """Seconds to wait for a thread: at least one, and no more than one can wait."""
    return min(max(1.0, deadline_s - time.monotonic()), threading.TIMEOUT_MAX)
