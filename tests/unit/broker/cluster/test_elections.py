"""Who leads next."""

from __future__ import annotations

import pytest

from fastprod.broker.cluster.elections import Election, elect


@pytest.mark.parametrize(
    ("isr", "live", "is_unclean", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], False, Election(1, [1, 2, 3])),
        ([3, 2], [1, 2, 3], False, Election(2, [3, 2])),
        ([1, 2], [2, 3], False, Election(2, [2])),
        ([1], [2, 3], False, Election(-1, [1])),
        ([1], [2, 3], True, Election(2, [2])),
        ([1], [], True, Election(-1, [1])),
    ],
)
def test_the_first_replica_in_sync_that_lives(
    isr: list[int], live: list[int], is_unclean: bool, expected: Election
) -> None:
    assert elect([1, 2, 3], isr, live, is_unclean) == expected
