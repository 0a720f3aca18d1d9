"""Names of connections: B-A3.2, B-A10.13."""

from __future__ import annotations

import pytest

from fastprod.broker.network.connection_ids import ConnectionIds
from fastprod.errors import IllegalStateError

ENDS = (("127.0.0.1", 9092), ("10.0.0.7", 50001))


def test_ids_count_from_0() -> None:
    """B-A3.2."""
    ids = ConnectionIds(3)
    assert [ids.take(*ENDS) for _ in range(2)] == [
        "127.0.0.1:9092-10.0.0.7:50001-3-0",
        "127.0.0.1:9092-10.0.0.7:50001-3-1",
    ]


def test_the_index_starts_again_after_the_last_int() -> None:
    """B-A3.2."""
    ids = ConnectionIds(0)
    ids._next_index = 2**31 - 1
    assert [ids.take(*ENDS).rsplit("-", 1)[1] for _ in range(2)] == ["2147483647", "0"]


def test_an_id_is_one_connections_until_it_is_given_back() -> None:
    """B-A10.13 testConnectionIdReuse."""
    ids = ConnectionIds(0)
    first = ids.take(*ENDS)
    ids._next_index = 0
    with pytest.raises(IllegalStateError, match=first):
        ids.take(*ENDS)
    ids.give_back(first)
    ids._next_index = 0
    assert ids.take(*ENDS) == first
