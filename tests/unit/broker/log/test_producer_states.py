"""Idempotent producers of a partition: the table of broker B-C6.2, and snapshots (B-C6.7)."""

from __future__ import annotations

import pytest

from fastprod._core.log.batch_validator import BatchInfo, validate
from fastprod.broker.log.log_error import LogError
from fastprod.broker.log.producer_snapshot import (
    SnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from fastprod.broker.log.producer_states import ProducedBatch, ProducerStates
from support.broker.log_batches import TIME, sequenced

LAST = 2**31 - 1
EPOCH_47, ORDER_45 = 47, 45


def info(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 9) -> BatchInfo:
    return validate(sequenced(producer_id, sequence, count, epoch), 2, -1, 1 << 20)


def states(*added: BatchInfo, window: int = 5) -> ProducerStates:
    made = ProducerStates(window, 1000)
    offset = 0
    for each in added:
        made.add(each, offset, TIME, 0)
        offset += each.record_count
    return made


def code_of(made: ProducerStates, each: BatchInfo) -> int:
    with pytest.raises(LogError) as caught:
        made.check(each, 0)
    return caught.value.error_code


@pytest.mark.parametrize("sequence", [0, 5, LAST])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    """B-C6.2: no state."""
    assert states().check(info(sequence), 0) is None


def test_an_older_epoch_is_fenced() -> None:
    """B-C6.2: INVALID_PRODUCER_EPOCH."""
    assert code_of(states(info(0, epoch=3)), info(0, epoch=2)) == EPOCH_47


def test_a_newer_epoch_begins_with_zero_and_forgets_the_batches() -> None:
    """B-C6.2, B-C6.1."""
    made = states(info(0), info(1))
    assert code_of(made, info(2, epoch=1)) == ORDER_45
    assert made.check(info(0, epoch=1), 0) is None
    made.add(info(0, epoch=1), 2, TIME, 0)
    state = made.get(9)
    assert state is not None
    assert [batch.base_offset for batch in state.batches] == [2]
    assert code_of(made, info(1, epoch=0)) == EPOCH_47


def test_the_last_five_batches_are_known_again() -> None:
    """B-C6.1, B-C6.2, B-C6.5; B-C6.3: an older one is out of order, never
    DUPLICATE_SEQUENCE_NUMBER.
    """
    made = states(*[info(2 * i, 2) for i in range(6)])
    for i in range(1, 6):
        assert made.check(info(2 * i, 2), 0) == ProducedBatch(
            2 * i, 2 * i + 1, 2 * i, 2 * i + 1, TIME
        )
    assert code_of(made, info(0, 2)) == ORDER_45
    assert code_of(made, info(10, 1)) == ORDER_45
    assert made.check(info(12), 0) is None
    assert code_of(made, info(13)) == ORDER_45


@pytest.mark.parametrize(
    ("first", "count", "following"), [(LAST, 1, 0), (LAST - 1, 4, 2), (LAST - 3, 4, 0)]
)
def test_after_the_largest_sequence_comes_zero(first: int, count: int, following: int) -> None:
    """B-C6.2, B-G4.13, ProducerStateManagerTest: wrap-around before, inside and after a batch."""
    made = states(info(first, count))
    assert made.check(info(following), 0) is None
    assert code_of(made, info(following + 1)) == ORDER_45
    assert made.check(info(first, count), 0) is not None


def test_silence_is_forgotten() -> None:
    """B-C6.6."""
    made = states(info(0))
    made.add(info(0, producer_id=10), 1, TIME, 500)
    assert made.check(info(7), 1000) is None
    assert made.expire(999) == 0
    assert made.expire(1000) == 1
    assert [producer_id for producer_id, _ in made.items()] == [10]
    assert len(made) == 1


def test_a_batch_after_long_silence_begins_anew() -> None:
    made = states(info(0))
    made.add(info(7), 1, TIME, 5000)
    state = made.get(9)
    assert state is not None
    assert [batch.first_sequence for batch in state.batches] == [7]


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    """B-C6.7; the second batch wraps."""
    made = states(info(LAST - 2, 2), info(LAST, 3), info(4, 2, producer_id=10, epoch=7))
    data = encode_snapshot(made)
    again = ProducerStates(5, 1000)
    decode_snapshot(data, again, 77)
    assert [
        (producer_id, state.epoch, state.batches, state.seen_ms)
        for producer_id, state in again.items()
    ] == [
        (9, 0, [ProducedBatch(LAST, 1, 2, 4, TIME)], 77),
        (10, 7, [ProducedBatch(4, 5, 5, 6, TIME)], 77),
    ]


def test_no_producers_are_a_snapshot_too() -> None:
    again = ProducerStates(5, 1000)
    decode_snapshot(encode_snapshot(states()), again, 0)
    assert len(again) == 0


def test_a_damaged_snapshot_is_refused_and_puts_nothing() -> None:
    data = encode_snapshot(states(info(0), info(0, producer_id=10)))
    damaged = [data[:cut] for cut in range(len(data))]
    damaged += [data + b"x", b"\x00\x02" + data[2:]]
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 4
        damaged.append(bytes(flipped))
    for each in damaged:
        again = ProducerStates(5, 1000)
        with pytest.raises(SnapshotError):
            decode_snapshot(each, again, 0)
        assert len(again) == 0
