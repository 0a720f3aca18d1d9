"""When a batch is to go: linger, backoff, and what a turn looks at (contract P-D.5, P-D.6).

P-L.41, P-L.44-49, P-L.55 and P-L.77 (RecordAccumulatorTest, ProducerBatchTest).
"""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.config import ADAPTIVE_LINGER_BOUND_MS
from support.engine.sender_steps import TOPIC, Steps

HEADER = 61
LARGEST_INT = 2**31 - 1
NOT_LEADER = 6
RECORD = b"x" * 100


# When (P-D.5).


def test_a_batch_is_ready_exactly_when_linger_is_over() -> None:
    """P-L.41 testLinger, P-D.5.2."""
    sender = Steps(linger_ms=10)
    sender.send()
    assert sender.door.ready(0) == (False, 10)
    sender.pass_time(9.999)
    assert sender.door.ready(0)[0] is False
    sender.pass_time(0.001)
    assert sender.door.ready(0)[0] is True
    assert sender.values(sender.drain()) == [b"v"]


def test_the_next_look_is_when_the_oldest_batch_has_lingered() -> None:
    """P-L.44 testNextReadyCheckDelay, P-D.5.3."""
    sender = Steps([(0, 0), (0, 0), (1, 0)], linger_ms=10, batch_size=250)
    sender.send(RECORD, 0)
    assert sender.door.ready(0) == (False, 10)
    sender.pass_time(5)
    sender.send(RECORD, 1)
    assert sender.door.ready(0) == (False, 5)
    assert sender.door.ready(1) == (False, None)
    for _ in range(3):
        sender.send(RECORD, 2)
    is_ready, delay_ms = sender.door.ready(1)
    assert is_ready
    assert delay_ms is None or delay_ms <= 10


def test_the_creation_of_the_batch_counts_and_not_its_latest_record() -> None:
    """P-D.5.1, P-D.2.8."""
    sender = Steps(linger_ms=10)
    sender.send()
    sender.pass_time(6)
    sender.send()
    assert sender.door.ready(0) == (False, 4)


def test_adaptive_linger_waits_only_while_something_is_in_flight() -> None:
    """P-D.5.2 as DESIGN.md has it: the first record leaves at once, the next ones gather behind it,
    up to the bound."""
    sender = Steps(linger_ms=None, is_known=True)
    sender.send(b"first")
    under_way = sender.drain()
    sender.send(b"second")
    bound = ADAPTIVE_LINGER_BOUND_MS
    assert sender.door.ready(0) == (False, bound)
    sender.pass_time(bound)
    assert sender.door.ready(0)[0]
    sender.send(b"third")
    sender.succeed(under_way)
    assert sender.door.ready(0)[0]
    assert sender.values(sender.drain()) == [b"second", b"third"]


MANY = 600
MANY_GATHER_MS = 6
"""10 us for each."""


def many_partitions() -> Steps:
    """Each with a record that lingers, behind a request that has just left."""
    sender = Steps([(0, 0)] * MANY, linger_ms=None, is_known=True, buffer_memory=8 << 20)
    sender.send(b"first")
    under_way = sender.drain()
    sender.door.stamp(0, sender.door.now_ms, sender.door.now_ms)
    for partition in range(MANY):
        sender.send(b"small", partition)
    assert not sender.door.ready(0)[0]
    sender.succeed(under_way)
    return sender


def test_adaptive_linger_lets_the_batches_of_many_partitions_gather() -> None:
    """P-D.5.2 as DESIGN.md has it: also with nothing in flight, and longer than a few may."""
    sender = many_partitions()
    assert not sender.door.ready(0)[0]
    sender.pass_time(ADAPTIVE_LINGER_BOUND_MS)
    assert not sender.door.ready(0)[0]
    sender.pass_time(MANY_GATHER_MS - ADAPTIVE_LINGER_BOUND_MS)
    assert sender.values(sender.drain()) == [b"small"] * MANY


def test_batches_that_gather_do_not_go_along_with_one_that_is_due() -> None:
    sender = many_partitions()
    with pytest.raises(TimeoutError):
        sender.send(b"awaited", 1).result(0)
    assert sender.values(sender.drain()) == [b"small", b"awaited"]


@pytest.mark.parametrize("is_answered", [True, False])
def test_short_memory_ends_adaptive_lingers_when_nothing_in_flight_will_give_any(
    is_answered: bool,
) -> None:
    """P-D.3.8 as DESIGN.md has it."""
    sender = Steps(linger_ms=None, is_known=True)
    sender.send(b"first")
    under_way = sender.drain()
    sender.send(b"second")
    assert sender.door.wait_in_line(sender.counters()["buffer_total_bytes"])
    if is_answered:
        sender.succeed(under_way)
    assert sender.door.ready(0)[0] is is_answered


def test_with_acks_0_a_request_counts_as_in_flight_for_a_millisecond() -> None:
    """P-D.5.2 as DESIGN.md has it: the first record leaves at once, those behind it gather."""
    sender = Steps(acks=0, enable_idempotence=False, linger_ms=None)
    sender.send(b"first")
    now_ms = sender.door.now_ms
    sender.door.sent_without_answer(sender.drain())
    sender.door.stamp(0, now_ms, now_ms)
    sender.send(b"second")
    assert sender.door.ready(0) == (False, 1)
    sender.send(b"third")
    sender.pass_time(1)
    assert sender.values(sender.drain()) == [b"second", b"third"]


@pytest.mark.parametrize("pressure", ["flush", "memory", "closed", "somebody waits"])
def test_linger_is_off_when_somebody_is_held_up_by_it(pressure: str) -> None:
    """P-L.49 testFlush, P-D.3.8, P-D.5.2: with a linger of int max; and a future that somebody
    waits for (P-D.5.2 as DESIGN.md has it)."""
    sender = Steps(linger_ms=LARGEST_INT, delivery_timeout_ms=LARGEST_INT)
    future = sender.send()
    assert sender.door.ready(0)[0] is False
    if pressure == "flush":
        sender.door.set_flushing(1)
    elif pressure == "memory":
        assert sender.door.wait_in_line(sender.counters()["buffer_total_bytes"])
    elif pressure == "closed":
        sender.engine.close_accumulator()
    else:
        with pytest.raises(TimeoutError):
            future.result(0)
    assert sender.values(sender.drain()) == [b"v"]


def test_what_a_close_will_throw_away_is_not_hurried_out() -> None:
    """P-A.9.3: close(0) sends nothing that was not due."""
    sender = Steps(linger_ms=10)
    sender.send()
    sender.engine.close_accumulator(discards=True)
    assert sender.door.ready(0) == (False, 10)
    sender.pass_time(10)
    assert sender.values(sender.drain()) == [b"v"]


def test_when_the_pressure_is_gone_linger_counts_again() -> None:
    """P-D.3.8, P-D.10.5."""
    sender = Steps(linger_ms=10)
    sender.door.set_flushing(2)
    sender.send()
    sender.succeed(sender.drain())
    sender.door.set_flushing(0)
    sender.send()
    assert sender.door.ready(0) == (False, 10)
    sender.door.wait_in_line(sender.counters()["buffer_total_bytes"])
    assert sender.door.ready(0)[0]
    sender.door.leave_line()
    assert sender.door.ready(0) == (False, 10)


def test_a_lingering_batch_goes_along_with_one_that_is_due() -> None:
    """P-D.5.3, P-D.7.1: the node gets a request anyway."""
    sender = Steps([(0, 0), (0, 0)], linger_ms=10)
    sender.send(b"old", 0)
    sender.pass_time(10)
    sender.send(b"young", 1)
    assert sorted(sender.values(sender.drain()), key=str) == [b"old", b"young"]


def test_a_request_in_flight_does_not_delay_other_partitions() -> None:
    """P-D.5.4."""
    sender = Steps([(0, 0), (0, 0)])
    sender.send(b"a", 0)
    sender.drain()
    sender.send(b"b", 1)
    assert sender.values(sender.drain()) == [b"b"]


def test_muted_partitions_make_no_node_ready() -> None:
    """P-L.55 testMutedPartitions, P-D.5.2."""
    sender = Steps(batch_size=200, linger_ms=0)
    sender.door.mute(TOPIC, 0, True)
    sender.send(RECORD)
    sender.send(RECORD)
    assert sender.door.ready(0) == (False, None)
    assert sender.door.drain(0) is None
    sender.door.mute(TOPIC, 0, False)
    assert sender.door.ready(0)[0]
    assert sender.values(sender.drain()) == [RECORD]


def test_a_partition_without_a_leader_waits_for_one() -> None:
    """P-D.5.1: and leaves for the new leader at once."""
    sender = Steps([(-1, -1), (0, 0)])
    sender.send(b"a", 0)
    assert sender.nothing_goes(0)
    sender.lead([(0, 0), (0, 0)])
    assert sender.values(sender.drain()) == [b"a"]


def test_a_partition_follows_its_leader_to_another_node() -> None:
    """P-D.7.1."""
    sender = Steps([(0, 0)])
    sender.door.connect(1)
    sender.send(b"a")
    sender.lead([(1, 1)])
    assert sender.nothing_goes(0)
    assert sender.values(sender.drain(1)) == [b"a"]


@pytest.mark.parametrize("slot", [-1, 1])
def test_a_partition_that_changed_nodes_is_its_new_node_s_at_once(slot: int) -> None:
    """P-F.2: before any node has its turn, whichever comes first."""
    sender = Steps([(slot, 0)], linger_ms=10)
    sender.door.connect(1)
    sender.send()
    sender.pass_time(10)
    sender.door.ready(1)
    sender.lead([(0, 1)])
    assert sender.door.ready(1) == (False, None)
    assert sender.door.ready(0)[0]


# What a turn looks at.


def looks(sender: Steps, turns: int = 10) -> int:
    """How many partitions so many turns look at."""
    before = sender.counters()["looks"]
    for _ in range(turns):
        sender.door.ready(0)
        sender.door.expire()
    return sender.counters()["looks"] - before


PARTITIONS = 50
WAITING: dict[str, dict[str, Any]] = {
    "idle": {},
    "lingering": {"linger_ms": 1000},
    "in flight": {},
    "backing off": {"retry_backoff_ms": 1000},
    "queued behind what is in flight": {"max_in_flight_requests_per_connection": 1},
    "without a leader": {},
    "without a producer id": {"has_producer_id": False},
}


@pytest.mark.parametrize("state", WAITING)
def test_what_waits_costs_nothing_until_something_changes(state: str) -> None:
    """A turn looks at what changed, and not at all that there is."""
    slot = -1 if state == "without a leader" else 0
    sender = Steps([(slot, 0)] * PARTITIONS, buffer_memory=1 << 23, **WAITING[state])
    for partition in range(PARTITIONS):
        sender.send(partition=partition)
    if state in ("idle", "in flight", "backing off", "queued behind what is in flight"):
        handle = sender.drain()
        if state == "idle":
            sender.succeed(handle)
        elif state == "backing off":
            sender.door.fail(handle)
    if state == "queued behind what is in flight":
        for partition in range(PARTITIONS):
            sender.send(partition=partition)
    sender.door.ready(0)
    assert looks(sender) == 0
    sender.send(partition=7)  # on into the open batch, which nobody has to know, or a new one
    assert looks(sender) <= 1


def test_an_announcement_is_not_repeated_until_it_was_heard() -> None:
    """Batches that come before the I/O thread has looked need one look."""
    sender = Steps(batch_size=200, linger_ms=1000)
    before = sender.counters()["looks"]
    futures = [sender.door.append(TOPIC, RECORD, None, 0, looks=False) for _ in range(5)]
    assert sender.door.ready(0)[0]
    assert sender.counters()["looks"] - before == 1
    assert len(sender.queue()) == 5
    assert all(future is not None and not future.done() for future in futures)


def test_a_batch_that_becomes_full_is_due_at_once() -> None:
    """P-A.3.11, P-D.5.2: with no second batch behind it."""
    sender = Steps(batch_size=HEADER + 68, linger_ms=1000)
    sender.send(b"x" * 10)
    assert not sender.door.ready(0)[0]
    sender.send(b"x" * 44)
    assert len(sender.queue()) == 1
    assert sender.queue()[0]["is_full"]
    assert sender.door.ready(0)[0]


def test_a_new_leader_is_heard_of_by_what_waits_only() -> None:
    """Partitions that have nothing are not looked at for each answer about the cluster."""
    sender = Steps([(0, 0)] * PARTITIONS, linger_ms=1000)
    sender.send(partition=3)
    before = sender.counters()["looks"]
    sender.lead([(0, 1)] * PARTITIONS)
    sender.door.ready(0)
    assert sender.counters()["looks"] - before == 1


# Retries (P-D.6).


def test_a_retry_waits_for_its_backoff_while_others_go() -> None:
    """P-L.45 testRetryBackoff, P-D.6.1, P-D.6.2: up to 1.2 times the base."""
    sender = Steps([(0, 0), (0, 0)], retry_backoff_ms=100, retry_backoff_max_ms=1000)
    sender.send(b"a", 0)
    sender.door.fail(sender.drain())
    sender.send(b"b", 1)
    assert sender.values(sender.drain()) == [b"b"]
    is_ready, delay_ms = sender.door.ready(0)
    assert is_ready is False
    assert delay_ms is not None
    assert 80 <= delay_ms <= 120
    sender.pass_time(delay_ms - 0.001)
    assert sender.nothing_goes()
    sender.pass_time(0.002)
    assert sender.values(sender.drain()) == [b"a"]


def test_backoffs_double_up_to_the_largest() -> None:
    """P-L.46 testExponentialRetryBackoff, P-D.6.1, P-D.6.4: inside 0.8 to 1.2 of 100 times 2 to the
    i, never above 1000, and drawn once for each attempt."""
    for _ in range(20):
        sender = Steps(retry_backoff_ms=100, retry_backoff_max_ms=1000)
        sender.send()
        for attempt in range(8):
            sender.door.fail(sender.drain())
            (batch,) = sender.queue()
            wait_ms = batch["backoff_ms"]
            middle = min(1000, 100 * 2**attempt)
            assert 0.8 * middle <= wait_ms <= min(1000, 1.2 * middle)
            assert batch["attempts"] == attempt + 1
            assert sender.door.ready(0)[1] == pytest.approx(wait_ms, abs=0.001)
            assert sender.door.ready(0)[1] == sender.door.ready(0)[1]
            sender.pass_time(wait_ms + 0.001)  # the clock's float may fall a nanosecond short


def test_producers_do_not_retry_in_step() -> None:
    """P-D.6.1: the jitter is each producer's own."""
    waits = set()
    for _ in range(20):
        sender = Steps(retry_backoff_ms=100)
        sender.send()
        sender.door.fail(sender.drain())
        waits.add(sender.queue()[0]["backoff_ms"])
    assert len(waits) > 10


@pytest.mark.parametrize(("base", "largest"), [(500, 500), (500, 100), (0, 100), (0, 0)])
def test_a_base_at_the_largest_is_the_backoff_without_jitter(base: int, largest: int) -> None:
    """P-D.6.1."""
    sender = Steps(retry_backoff_ms=base, retry_backoff_max_ms=largest)
    sender.send()
    for _ in range(4):
        sender.door.fail(sender.drain())
        assert sender.queue()[0]["backoff_ms"] == min(base, largest)
        sender.pass_time(min(base, largest))


@pytest.mark.parametrize("largest", [2**63 - 1, 2**62, 2**58 + 1, 9223372036855])
def test_a_backoff_without_a_limit_doubles_from_its_base(largest: int) -> None:
    """P-D.6.1: 2**63 - 1 ms is how Java says "without a limit"."""
    sender = Steps(retry_backoff_ms=100, retry_backoff_max_ms=largest)
    sender.send()
    for attempt in range(8):
        sender.door.fail(sender.drain())
        (batch,) = sender.queue()
        assert 80 * 2**attempt <= batch["backoff_ms"] <= 120 * 2**attempt
        assert sender.nothing_goes()
        sender.pass_time(batch["backoff_ms"] + 0.001)


def test_a_backoff_of_for_ever_does_not_end() -> None:
    """P-D.6.1: base and largest alike; the batch waits until it expires."""
    sender = Steps(retry_backoff_ms=2**63 - 1, retry_backoff_max_ms=2**63 - 1)
    future = sender.send()
    sender.door.fail(sender.drain())
    sender.pass_time(sender.config.delivery_timeout_ms - 1)
    assert sender.nothing_goes()
    sender.pass_time(1)
    sender.door.expire()
    assert future.done()


def test_a_leader_without_epochs_does_not_shorten_the_backoff() -> None:
    """P-L.47 testExponentialRetryBackoffLeaderChange: old brokers tell no epoch."""
    sender = Steps([(0, -1)], retry_backoff_ms=100)
    sender.door.connect(1)
    sender.send()
    for slot, attempt in ((0, 0), (1, 1), (0, 2)):
        sender.lead([(slot, -1)])
        sender.door.fail(sender.drain(slot))
        sender.lead([(1 - slot, -1)])
        assert sender.queue()[0]["attempts"] == attempt + 1
        assert sender.nothing_goes(1 - slot), "backing off, whoever leads"
        sender.pass_time(1000)


def test_a_newer_leader_epoch_skips_the_backoff_once() -> None:
    """P-L.48 testReadyAndDrainWhenABatchIsBeingRetried, P-D.6.3."""
    sender = Steps([(0, 100)], retry_backoff_ms=100)
    sender.door.connect(1)
    sender.send()
    sender.refuse(sender.drain(), NOT_LEADER)
    assert sender.nothing_goes(), "the leader is the same"
    sender.lead([(1, 101)])
    handle = sender.drain(1)
    sender.refuse(handle, NOT_LEADER)
    assert sender.nothing_goes(1), "no newer leader for this attempt"
    sender.lead([(1, 101)])
    assert sender.nothing_goes(1)
    sender.pass_time(1000)
    sender.succeed(sender.drain(1))


def test_the_rule_of_the_new_leader_in_all_its_steps() -> None:
    """P-L.77 testWithLeaderChangesAcrossRetries, P-D.6.3: the first epoch is no change, nor is one
    without a number or an older one; an epoch seen before the first attempt is none either."""
    sender = Steps([(0, -1)], retry_backoff_ms=100)
    sender.send()
    assert sender.door.ready(0)[0]
    sender.lead([(0, 100)])
    sender.refuse(sender.drain(), NOT_LEADER)
    assert sender.nothing_goes(), "epoch 100 was there at the first attempt"
    for epoch in (-1, 99, 100):
        sender.lead([(0, epoch)])
        assert sender.nothing_goes()
    sender.lead([(0, 101)])
    sender.refuse(sender.drain(), NOT_LEADER)
    sender.lead([(0, 101)])
    assert sender.nothing_goes()
    sender.pass_time(1000)
    sender.refuse(sender.drain(), NOT_LEADER)
    sender.lead([(0, 107)])
    sender.succeed(sender.drain())
