"""How far a group has read, and what open transactions say about it (B-E2, KIP-447)."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata

T0, T1 = ("t", 0), ("t", 1)


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, -1, "", 0)


def test_each_producer_has_its_own_until_its_end() -> None:
    offsets = GroupOffsets()
    offsets.commit({T0: at(1)})
    offsets.add_pending(7, {T0: at(2)})
    offsets.add_pending(8, {T1: at(3)})
    assert (offsets.is_pending(T0), offsets.is_pending(T1)) == (True, True)
    assert offsets.committed == {T0: at(1)}
    assert set(offsets.places()) == {T0, T1}
    assert offsets.end_transaction(7, True)
    assert not offsets.end_transaction(7, True)
    assert offsets.committed == {T0: at(2)}
    assert offsets.end_transaction(8, False)
    assert not offsets.has_pending
    assert offsets.committed == {T0: at(2)}
    assert T1 not in offsets


def test_a_commit_without_a_transaction_is_newer_than_what_is_open() -> None:
    offsets = GroupOffsets()
    offsets.add_pending(7, {T0: at(2), T1: at(3)})
    offsets.commit({T0: at(9)})
    assert offsets.is_pending(T0), "until the end"
    offsets.end_transaction(7, True)
    assert offsets.committed == {T0: at(9), T1: at(3)}


@pytest.mark.parametrize("last", [7, 8])
def test_of_two_transactions_the_one_that_spoke_last_counts(last: int) -> None:
    """A late end must not take a group back to what was written down before."""
    offsets = GroupOffsets()
    first = 15 - last
    offsets.add_pending(first, {T0: at(2), T1: at(3)})
    offsets.add_pending(last, {T0: at(9)})
    offsets.end_transaction(last, True)
    offsets.end_transaction(first, True)
    assert offsets.committed == {T0: at(9), T1: at(3)}
    offsets.add_pending(first, {T0: at(10)})
    offsets.add_pending(last, {T0: at(11)})
    offsets.end_transaction(first, True)
    assert offsets.committed[T0] == at(10)
    offsets.end_transaction(last, True)
    assert offsets.committed[T0] == at(11)


def test_what_is_forgotten_does_not_come_back() -> None:
    offsets = GroupOffsets()
    offsets.add_pending(7, {T0: at(2)})
    offsets.remove(T0)
    offsets.end_transaction(7, True)
    assert offsets.is_empty
    offsets.add_pending(7, {T0: at(2)})
    assert not offsets.is_empty
    offsets.clear()
    assert offsets.is_empty


def test_when_something_was_said_last_is_known() -> None:
    offsets = GroupOffsets()
    assert offsets.newest_ms(T0) == -1
    offsets.commit({T0: OffsetAndMetadata(1, -1, "", 30)})
    offsets.add_pending(7, {T0: OffsetAndMetadata(1, -1, "", 40)})
    assert offsets.newest_ms(T0) == 40
    assert offsets.newest_ms(T1) == -1
    offsets.commit({T0: OffsetAndMetadata(1, -1, "", 35)})
    assert offsets.newest_ms(T0) == 35
