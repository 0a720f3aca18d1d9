"""What goes, and in which order (contract P-D.7).

P-L.38, P-L.42 and P-L.63 (RecordAccumulatorTest); P-L.56 is about transactions. When it
goes is test_ready_list.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fastprod._core.testing.request_doors import forbid_growth_for_test
from support.engine.sender_steps import TOPIC, Steps, outcome
from support.oracle import record_batch as oracle

HEADER = 61
RECORD = b"x" * 100
BATCH_BYTES = HEADER + len(oracle.encode_record((1, None, RECORD), 0, 1))
"""A batch of one such record."""


def drained(sender: Steps, slot: int = 0) -> list[int]:
    """The partitions in the node's next request, which is answered at once."""
    handle = sender.drain(slot)
    found = [each.partition for each in sender.sent(handle)]
    sender.succeed(handle)
    return found


# What goes, in which order (P-D.7).


def test_requests_of_one_batch_go_round_the_partitions_of_a_node() -> None:
    """P-L.38 testDrainBatches, P-D.7.1, P-D.7.3: a cap of one batch; no partition starves."""
    sender = Steps([(0, 0), (0, 0), (1, 0), (0, 0)], max_request_size=BATCH_BYTES)
    found = []
    for _ in range(6):
        for partition in (0, 1, 3):
            if not sender.queue(partition):
                sender.send(RECORD, partition)
        found += drained(sender)
    assert sorted(found[:3]) == [0, 1, 3]
    assert found[3:] == found[:3]


def test_a_partition_with_many_batches_does_not_keep_its_turn() -> None:
    """P-D.7.1: who was taken from goes to the end, though it has more that is due."""
    sender = Steps([(0, 0)] * 3, max_request_size=BATCH_BYTES, batch_size=200)
    for _ in range(3):
        for partition in range(3):
            sender.send(RECORD, partition)
    found = [partition for _ in range(6) for partition in drained(sender)]
    assert sorted(found[:3]) == [0, 1, 2]
    assert found[3:] == found[:3]


def test_a_muted_partition_is_passed_over() -> None:
    """P-L.38, P-D.7.2: the turn goes to the next."""
    sender = Steps([(0, 0)] * 3, max_request_size=BATCH_BYTES)
    for partition in range(3):
        sender.send(RECORD, partition)
    sender.door.mute(TOPIC, 1, True)
    assert sorted(drained(sender) + drained(sender)) == [0, 2]
    assert sender.nothing_goes()
    sender.door.mute(TOPIC, 1, False)
    assert drained(sender) == [1]


def test_without_a_cap_every_partition_gives_one_batch() -> None:
    """P-L.38, P-D.7.1: at most one batch a partition."""
    sender = Steps([(0, 0)] * 4, batch_size=200, linger_ms=0)
    for partition in range(4):
        sender.send(RECORD, partition)
        sender.send(RECORD, partition)
    assert sorted(drained(sender)) == [0, 1, 2, 3]
    assert sorted(drained(sender)) == [0, 1, 2, 3]
    assert sender.nothing_goes()


def test_a_node_that_leads_nothing_gets_nothing() -> None:
    """P-L.63 testDrainWithANodeThatDoesntHostAnyPartitions."""
    sender = Steps([(0, 0), (0, 0)])
    sender.door.connect(1)
    sender.send(RECORD, 0)
    assert sender.nothing_goes(1)
    assert drained(sender) == [0]


def test_a_request_stops_where_the_next_batch_would_be_too_much() -> None:
    """P-L.42 testPartialDrain, P-D.7.3."""
    sender = Steps([(0, 0)] * 3, max_request_size=2 * BATCH_BYTES + 10)
    for partition in range(3):
        sender.send(RECORD, partition)
    assert [len(drained(sender)), len(drained(sender))] == [2, 1]


def test_a_batch_larger_than_a_request_may_be_goes_alone() -> None:
    """P-D.7.3."""
    sender = Steps([(0, 0)] * 2, max_request_size=BATCH_BYTES - 1)
    sender.send(RECORD, 0)
    sender.send(RECORD, 1)
    assert [len(drained(sender)), len(drained(sender))] == [1, 1]


def test_a_blocked_partition_does_not_stop_the_others() -> None:
    """P-D.7.5: nor does its node's cursor stay on it."""
    sender = Steps([(0, 0)] * 3, max_request_size=BATCH_BYTES)
    for partition in range(3):
        sender.send(RECORD, partition)
    sender.door.mute(TOPIC, 0, True)
    for _ in range(4):
        for partition in (1, 2):
            if not sender.queue(partition):
                sender.send(RECORD, partition)
        assert 0 not in drained(sender)


@pytest.fixture
def growth() -> Iterator[Callable[[int], None]]:
    """How many more times a request gets memory."""
    yield forbid_growth_for_test
    forbid_growth_for_test(-1)


@pytest.mark.parametrize(("after", "taken"), [(0, 0), (1, 0), (2, 4), (3, 4), (4, 8)])
def test_what_a_request_has_no_memory_for_stays_in_its_queue(
    growth: Callable[[int], None], after: int, taken: int
) -> None:
    """What was taken out of its queue is in the request; the rest goes with the next one."""
    sender = Steps([(0, 0)] * 10)
    futures = [sender.send(RECORD, partition) for partition in range(10)]
    assert sender.door.ready(0)[0]
    growth(after)
    handle = sender.door.drain(0)
    growth(-1)
    assert (0 if handle is None else len(sender.sent(handle))) == taken
    assert sum(len(sender.queue(each)) for each in range(10)) == 10 - taken
    if handle is not None:
        sender.succeed(handle)
    while sender.door.ready(0)[0]:
        sender.succeed(sender.drain())
    assert all(outcome(each) is not None for each in futures)
    assert sender.memory_is_back()


def test_batches_of_one_partition_leave_in_the_order_of_their_records() -> None:
    """P-D.1.1."""
    sender = Steps(batch_size=250)
    for number in range(12):
        sender.send(b"%d" % number + RECORD)
    found = []
    while sender.queue():
        handle = sender.drain()
        found += sender.values(handle)
        sender.succeed(handle)
    assert found == [b"%d" % number + RECORD for number in range(12)]
