"""Sequence arithmetic against integers modulo 2**31 (contract P-F.5.2, P-F.5.11)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.testing.request_doors import (
    ProducerStateForTest,
    next_sequence_for_test,
)

SEQUENCES = st.integers(0, 2**31 - 1) | st.integers(2**31 - 40, 2**31 - 1)
COUNTS = st.integers(0, 2**31 - 1) | st.integers(0, 40)


@given(sequence=SEQUENCES, count=COUNTS)
def test_sequences_are_integers_modulo_their_number(sequence: int, count: int) -> None:
    assert next_sequence_for_test(sequence, count) == (sequence + count) % 2**31


@given(
    start=SEQUENCES.filter(bool),  # the first of all goes alone
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    data=st.data(),
)
def test_answers_in_any_order_leave_the_newest_acknowledged(
    start: int, counts: list[int], data: st.DataObject
) -> None:
    """P-F.5.4, P-F.5.11."""
    producer = ProducerStateForTest(next_sequence=start)
    lasts, offset = [], 0
    for name, count in enumerate(counts):
        assert producer.drain(name, count)
        assert producer.sequence(name) == (4000, 0, (start + offset) % 2**31)
        offset += count
        lasts.append(offset - 1)
    newest = -1
    left = list(range(len(counts)))
    for name in data.draw(st.permutations(left)):
        producer.acked(name, lasts[name] - counts[name] + 1)
        newest = max(newest, lasts[name])
        left.remove(name)
        assert producer.state["last_acked_sequence"] == (start + newest) % 2**31
        assert producer.state["last_acked_offset"] == newest
        assert producer.flights() == left
