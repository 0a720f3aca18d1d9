"""Purges, step by step: what is given up, what stays, and what may follow it."""

from __future__ import annotations

import pytest

from fastprod._core.delivery.result import ERR_PURGED
from fastprod._core.engine.control_queue import PURGE_IN_FLIGHT, PURGE_QUEUED, EventKind
from fastprod.errors import RecordPurgedError
from support.engine.sender_steps import Steps, known, offset, retried

NOT_LEADER = 6
TOKEN = 7


def purge(steps: Steps, purged: int) -> int:
    """How many records the answer says that have failed."""
    steps.engine.abort_pending(ERR_PURGED, TOKEN, purged)
    steps.door.obey()
    (event,) = steps.events(EventKind.ON_PURGED)
    assert event.token == TOKEN
    return event.item_count


def test_each_purge_is_answered_with_its_count() -> None:
    """Also one that finds nothing; a record that was cancelled has failed before."""
    steps = known(partitions=2)
    futures = [steps.send(partition=number % 2) for number in range(5)]
    assert futures[0].cancel()
    assert purge(steps, PURGE_IN_FLIGHT) == 0
    assert purge(steps, PURGE_QUEUED) == 4
    assert purge(steps, PURGE_QUEUED | PURGE_IN_FLIGHT) == 0
    assert all(isinstance(each.exception(0), RecordPurgedError) for each in futures[1:])
    assert steps.memory_is_back()


def test_what_is_kept_stays_in_the_queue_and_more_comes_behind_it() -> None:
    """In its order, whether all of the queue is kept or its first batch."""
    steps = known(batch_size=200)
    again = steps.send(b"again" + bytes(100))
    steps.refuse(steps.drain(), NOT_LEADER)
    queued = [steps.send(b"%d" % number + bytes(100)) for number in range(3)]
    assert purge(steps, PURGE_QUEUED) == 3
    assert all(isinstance(each.exception(0), RecordPurgedError) for each in queued)
    later = [steps.send(b"later %d" % number + bytes(100)) for number in range(3)]
    assert len(steps.queue()) == 4
    handle = retried(steps)
    assert steps.values(handle) == [b"again" + bytes(100)]
    steps.succeed(handle, base_offset=10)
    assert offset(again) == 10
    assert purge(steps, PURGE_IN_FLIGHT) == 0
    later.append(steps.send(b"last"))
    values: list[bytes | None] = []
    while steps.queue():
        handle = steps.drain()
        values += steps.values(handle)
        steps.succeed(handle, base_offset=11 + len(values))
    assert [(value or b"").rstrip(b"\0") for value in values] == [
        *(b"later %d" % number for number in range(3)),
        b"last",
    ]
    assert all(each.succeeded() for each in later)
    assert steps.memory_is_back()


@pytest.mark.parametrize("is_written", [True, False])
def test_what_is_behind_a_purged_batch_waits_until_its_fate_is_known(is_written: bool) -> None:
    """P-F.5.7: it follows in the sequence, or begins a new epoch."""
    steps = known()
    steps.send(b"purged")
    handle = steps.drain()
    assert purge(steps, PURGE_IN_FLIGHT) == 1
    behind = steps.send(b"behind")
    assert steps.nothing_goes()
    if is_written:
        steps.succeed(handle, base_offset=4)
    else:
        steps.refuse(handle, NOT_LEADER)
    handle = retried(steps)
    assert steps.sequences(handle) == [(0, 2) if is_written else (1, 0)]
    steps.succeed(handle, base_offset=5)
    assert offset(behind) == 5
    assert steps.memory_is_back()
