"""Deadlines: what is left of them, and time-outs that cannot be."""

from __future__ import annotations

import math
import threading
import time
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fastprod.deadline import checked_timeout, record_deadline_ns, slice_s, time_left_s

HOUR_S = 3600.0


def test_a_timeout_that_is_negative_or_no_number_is_refused() -> None:
    for timeout in (None, 0, 0.5, math.inf):
        assert checked_timeout(timeout) == timeout
    for timeout in (-1, math.nan):
        with pytest.raises(ValueError, match=f"timeout = {timeout}: must be 0 or more"):
            checked_timeout(timeout)


def test_a_records_deadline_is_above_zero_and_fits_64_bits() -> None:
    assert record_deadline_ns(0.5) == 500_000_000
    assert record_deadline_ns(math.inf) < 1 << 62
    for deadline in (0, -1, math.nan):
        with pytest.raises(ValueError, match=f"deadline = {deadline}: must be more than 0"):
            record_deadline_ns(deadline)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (Decimal("1.5"), 1.5),
        (Fraction(3, 2), 1.5),
        (np.float64(1.5), 1.5),
        (np.int64(2), 2.0),
        (10**400, math.inf),
    ],
)
def test_seconds_may_be_any_kind_of_number(given: Any, seconds: float) -> None:
    found = checked_timeout(given)
    assert type(found) is float
    assert found == seconds
    assert record_deadline_ns(given) == min(seconds, 2e9) * 1e9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("5", "not str"),
        (b"5", "not bytes"),
        (np.str_("5"), "not str_"),
        (np.array([1.0, 2.0]), "not ndarray"),
        (1j, "not complex"),
        (Decimal("sNaN"), "not Decimal"),
        (timedelta(seconds=5), r"not timedelta: give total_seconds\(\) of it"),
    ],
    ids=["text", "bytes", "text of numpy's", "array", "complex", "signaling NaN", "timedelta"],
)
def test_seconds_that_are_no_number_are_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"timeout must be a number of seconds or None, {words}"):
        checked_timeout(given)
    with pytest.raises(TypeError, match=f"deadline must be a number of seconds or None, {words}"):
        record_deadline_ns(given)


def test_a_wait_is_cut_into_slices_that_end_with_the_deadline() -> None:
    assert slice_s(None) == slice_s(time.monotonic() + HOUR_S) == 0.05
    assert slice_s(time.monotonic() - HOUR_S) == 0.0


def test_a_thread_is_waited_for_a_second_at_least_and_no_longer_than_can_be() -> None:
    assert time_left_s(time.monotonic() - HOUR_S) == 1.0
    assert HOUR_S / 2 < time_left_s(time.monotonic() + HOUR_S) <= HOUR_S
    assert time_left_s(float("inf")) == threading.TIMEOUT_MAX
