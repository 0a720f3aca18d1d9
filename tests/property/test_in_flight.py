"""Requests in flight against a deque, and correlation ids against a set (contract P-G.2)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.testing.request_doors import InFlightForTest, next_correlation_id_for_test

STEPS = st.sampled_from(["produce", "control", "write", "pop", "pop newest"])


@dataclass
class Flight:
    name: int
    is_produce: bool
    is_written: bool = False


@given(steps=st.lists(STEPS, max_size=60), most=st.integers(1, 6))
def test_in_flight_requests_are_a_deque(steps: list[str], most: int) -> None:
    flights = InFlightForTest()
    model: deque[Flight] = deque()
    for name, step in enumerate(steps):
        if step in ("produce", "control"):
            flights.add(name, step == "produce")
            model.append(Flight(name, step == "produce"))
        elif step == "write" and model:
            flights.write_newest()
            model[-1].is_written = True
        elif step == "pop":
            assert flights.pop() == (model.popleft().name if model else None)
        elif step == "pop newest":
            assert flights.pop_newest() == (model.pop().name if model else None)
        assert flights.counts == (len(model), sum(flight.is_produce for flight in model))
        is_free = not model or (model[-1].is_written and len(model) < most)
        assert flights.can_send(most) == is_free


@given(st.integers(-(2**31), 2147483639))
def test_correlation_ids_go_up_by_one_and_never_into_the_reserved_range(at: int) -> None:
    """P-G.2.3."""
    following = next_correlation_id_for_test(at)
    assert not 2147483640 <= following <= 2147483647
    assert following == (at + 1 if at < 2147483639 else -(2**31))
