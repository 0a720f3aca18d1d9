"""Deadlines: what is left of them, and time-outs that cannot be."""

from __future__ import annotations

import math
import threading
import time

import pytest

from fastprod.deadline import check_timeout, record_deadline_ns, slice_s, time_left_s

HOUR_S = 3600.0


def test_a_timeout_that_is_negative_or_no_number_is_refused() -> None:
    for timeout in (None, 0, 0.5, math.inf):
        check_timeout(timeout)
    for timeout in (-1, math.nan):
        with pytest.raises(ValueError, match=f"timeout = {timeout}: must be 0 or more"):
            check_timeout(timeout)


def test_a_records_deadline_is_above_zero_and_fits_64_bits() -> None:
    assert record_deadline_ns(0.5) == 500_000_000
    assert record_deadline_ns(math.inf) < 1 << 62
    for deadline in (0, -1, math.nan):
        with pytest.raises(ValueError, match=f"deadline = {deadline}: must be more than 0"):
            record_deadline_ns(deadline)


def test_a_wait_is_cut_into_slices_that_end_with_the_deadline() -> None:
    assert slice_s(None) == slice_s(time.monotonic() + HOUR_S) == 0.05
    assert slice_s(time.monotonic() - HOUR_S) == 0.0


def test_a_thread_is_waited_for_a_second_at_least_and_no_longer_than_can_be() -> None:
    assert time_left_s(time.monotonic() - HOUR_S) == 1.0
    assert HOUR_S / 2 < time_left_s(time.monotonic() + HOUR_S) <= HOUR_S
    assert time_left_s(float("inf")) == threading.TIMEOUT_MAX
