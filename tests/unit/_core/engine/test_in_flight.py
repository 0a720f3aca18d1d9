"""Requests in flight on one connection (contract P-G.2.1, P-G.2.3)."""

from __future__ import annotations

import pytest

from fastprod._core.testing.request_doors import InFlightForTest as InFlight
from fastprod._core.testing.request_doors import next_correlation_id_for_test as next_id


@pytest.mark.parametrize(
    ("correlation_id", "following"),
    [
        (0, 1),
        (-1, 0),
        (2147483638, 2147483639),
        (2147483639, -2147483648),
        (-2147483648, -2147483647),
    ],
)
def test_correlation_ids_skip_what_sasl_uses(correlation_id: int, following: int) -> None:
    """P-L.181, P-G.2.3: [2147483640, 2147483647] is reserved."""
    assert next_id(correlation_id) == following


def test_correlation_ids_around_the_reserved_range() -> None:
    """P-G.2.3, P-L.171 testCorrelationId: a hundred, all different, none of them SASL's."""
    at, seen = 2147483600, []
    for _ in range(100):
        at = next_id(at)
        seen.append(at)
    assert seen == [*range(2147483601, 2147483640), *range(-2147483648, -2147483648 + 61)]


def test_requests_are_answered_in_the_order_they_were_sent() -> None:
    """P-G.2.2, P-L.175 InFlightRequestsTest: the oldest first."""
    flights = InFlight()
    for name in range(5):
        flights.add(name)
    assert [flights.pop() for _ in range(6)] == [0, 1, 2, 3, 4, None]


def test_the_newest_can_be_taken_back() -> None:
    """P-F.3.2: with acks=0 a request is over when it is written. P-L.175: the newest; of none,
    none.
    """
    flights = InFlight()
    assert flights.pop_newest() is None
    for name in range(4):
        flights.add(name)
    assert flights.pop_newest() == 3
    assert flights.pop() == 0
    flights.add(9)
    assert [flights.pop_newest(), flights.pop_newest(), flights.pop_newest()] == [9, 2, 1]
    assert flights.counts == (0, 0)
    flights.add(10)
    assert flights.pop() == 10


def test_produce_requests_are_counted_apart() -> None:
    """Adaptive linger asks only for those."""
    flights = InFlight()
    flights.add(1, is_produce=True)
    flights.add(2, is_produce=False)
    flights.add(3, is_produce=True)
    assert flights.counts == (3, 2)
    flights.pop_newest()
    assert flights.counts == (2, 1)
    flights.pop()
    assert flights.counts == (1, 0)
    flights.pop()
    assert flights.counts == (0, 0)


def test_one_partly_written_request_stops_the_next() -> None:
    """P-G.2.1."""
    flights = InFlight()
    assert flights.can_send(1)
    flights.add(1)
    assert not flights.can_send(5)
    flights.write_newest()
    assert flights.can_send(5)
    assert not flights.can_send(1)
    flights.add(2)
    assert not flights.can_send(5)


def test_no_more_than_the_limit_are_in_flight() -> None:
    """P-G.2.1."""
    flights = InFlight()
    for name in range(5):
        assert flights.can_send(5)
        flights.add(name, is_written=True)
    assert not flights.can_send(5)
    assert flights.can_send(6)
    flights.pop()
    assert flights.can_send(5)


def test_an_empty_connection_can_always_send() -> None:
    """P-G.2.1: whatever the limit."""
    assert InFlight().can_send(0)
