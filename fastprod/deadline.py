"""Deadlines of calls with a timeout: a time of the monotonic clock in s; None: no deadline."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

_LONGEST_SLICE_S = 0.05
_LONGEST_RECORD_S = 2_000_000_000  # 63 years; in ns it still fits 64 bits


def checked_timeout(timeout: float | None) -> float | None:
    """Return a time-out as a float of seconds; None: no limit.

    Raises:
        TypeError: it is no number, such as a text or a `datetime.timedelta`.
        ValueError: it is negative, or NaN.
    """
    if timeout is None:
        return None
    seconds = seconds_of("timeout", timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout = {timeout}: must be 0 or more seconds, or None for no limit")
    return seconds


def record_deadline_ns(deadline: float) -> int:
    """How long a record with this `deadline` has, in ns, from the call of `send` on.

    Args:
        deadline: seconds, above 0; 63 years at most count.

    Raises:
        TypeError: it is no number.
        ValueError: it is 0 or less, or NaN.
    """
    seconds = seconds_of("deadline", deadline)
    if not seconds > 0:
        raise ValueError(f"deadline = {deadline}: must be more than 0 seconds, or None")
    return int(min(seconds, _LONGEST_RECORD_S) * 1e9)


def seconds_of(name: str, value: Any) -> float:
    """Return seconds of any kind of number as a float; those that no float holds are infinite.

    Raises:
        TypeError: `value` is no number; `name` says which argument it is.
    """
    kind = type(value)
    is_number = hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if is_number and not isinstance(value, str | bytes):  # numpy's texts have both
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):  # an array, a signaling NaN
            pass
    hint = ": give total_seconds() of it" if hasattr(kind, "total_seconds") else ""
    raise TypeError(f"{name} must be a number of seconds or None, not {kind.__name__}{hint}")


def slice_s(deadline_s: float | None) -> float:
    """Seconds to wait at once: signals get their turn every 50 ms."""
    if deadline_s is None:
        return _LONGEST_SLICE_S
    return max(0.0, min(_LONGEST_SLICE_S, deadline_s - time.monotonic()))


def time_left_s(deadline_s: float) -> float:
    """Seconds to wait for a thread: at least one, and no more than one can wait."""
    return min(max(1.0, deadline_s - time.monotonic()), threading.TIMEOUT_MAX)
