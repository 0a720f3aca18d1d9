"""A batch that is too large, from its refusal to the last of its children (contract P-D.9).

P-L.57, P-L.58, P-L.115 and P-L.119 (RecordAccumulatorTest, SenderTest); what the split
itself makes is test_batch_split.py's.
"""

from __future__ import annotations

import pytest

from fastprod._core.delivery.future import RecordFuture
from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import DeliveryTimeoutError, InvalidRecordError, RecordTooLargeError
from support.engine.sender_steps import TOPIC, Steps, offset, outcome

MESSAGE_TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
INVALID_RECORD = 87


def large_batch(sender: Steps) -> list[RecordFuture]:
    """Five records: half its bytes are two of them and a header, so its children have 2, 2, 1."""
    return [sender.send(b"%d" % number * 100) for number in range(5)]


def values(numbers: str) -> list[bytes]:
    return [number.encode() * 100 for number in numbers]


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_the_children_of_a_batch_are_sent_and_resolve_the_futures(is_idempotent: bool) -> None:
    """P-L.57 testSplitAndReenqueue, P-L.115 testIdempotentSplitBatchAndSend, P-D.9.3, P-D.9.5: one
    after the other, consecutive sequences, offsets of their own."""
    sender = Steps(enable_idempotence=is_idempotent)
    futures = large_batch(sender)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    assert [outcome(each) for each in futures] == [None] * 5
    assert sender.counters()["batches_split"] == 1
    first = sender.drain()
    assert sender.values(first) == values("01")
    sender.succeed(first, 7)
    assert [offset(each) for each in futures[:2]] == [7, 8]
    assert [outcome(each) for each in futures[2:]] == [None] * 3
    second = sender.drain()
    assert sender.values(second) == values("23")
    if is_idempotent:
        assert sender.sequences(second) == [(0, 2)]
    sender.succeed(second, 30)
    assert [offset(each) for each in futures[2:4]] == [30, 31]
    third = sender.drain()
    if is_idempotent:
        assert sender.sequences(third) == [(0, 4)]
    sender.succeed(third, 50)
    assert offset(futures[4]) == 50
    assert sender.memory_is_back()


def test_children_do_not_linger_or_back_off() -> None:
    """P-D.9.4: the split costs no attempt; its parent's creation is theirs."""
    sender = Steps(linger_ms=1000, retry_backoff_ms=100)
    large_batch(sender)
    sender.pass_time(1000)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    assert sender.door.ready(0)[0]
    assert [each["attempts"] for each in sender.queue()] == [0, 0, 0]
    assert {each["created_ms"] for each in sender.queue()} == {1_000_000}
    assert all(each["was_split"] for each in sender.queue())


def test_children_go_before_what_was_sent_after_their_parent() -> None:
    """P-D.9.3: front of the queue, in order, also between batches of their neighbours."""
    sender = Steps(is_known=True, enable_idempotence=True)
    large_batch(sender)
    parent = sender.drain()
    sender.send(b"second")
    second = sender.drain()
    sender.send(b"third")
    sender.refuse(second, NOT_ENOUGH_REPLICAS)
    sender.refuse(parent, MESSAGE_TOO_LARGE)
    assert [each["count"] for each in sender.queue()] == [2, 2, 1, 1, 1]
    assert [each["sequence"] for each in sender.queue()] == [1, 3, 5, 6, None]
    sender.pass_time(1000)
    sent = []
    while sender.queue():
        handle = sender.drain()
        sent += sender.values(handle)
        sender.succeed(handle)
    assert sent == [*values("01234"), b"second", b"third"]


def test_without_sequences_children_go_to_the_front() -> None:
    """P-D.9.3."""
    sender = Steps(enable_idempotence=False)
    large_batch(sender)
    parent = sender.drain()
    sender.send(b"next")
    sender.refuse(parent, MESSAGE_TOO_LARGE)
    assert [each["count"] for each in sender.queue()] == [2, 2, 1, 1]


def test_a_child_may_be_too_large_again() -> None:
    """P-D.9.7: down to single records, which fail."""
    sender = Steps()
    futures = large_batch(sender)
    refused = []
    while sender.queue():
        handle = sender.drain()
        found = sender.values(handle)
        if len(found) > 1 or found == values("2"):
            refused.append(len(found))
            sender.refuse(handle, MESSAGE_TOO_LARGE)
        else:
            sender.succeed(handle, 0)
    assert refused == [5, 2, 2, 1]
    assert isinstance(outcome(futures[2]), RecordTooLargeError)
    assert [offset(each) for each in (*futures[:2], *futures[3:])] == [0] * 4
    assert sender.memory_is_back()


def test_a_single_record_that_is_too_large_fails() -> None:
    """P-D.9.1, P-L.119 testTooLargeBatchesAreSafelyRemoved."""
    sender = Steps()
    future = sender.send(b"x" * 500)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    error = outcome(future)
    assert isinstance(error, RecordTooLargeError)
    assert (error.size_bytes or 0) > 500
    assert sender.memory_is_back()
    assert sender.nothing_goes()


def test_children_fail_one_by_one() -> None:
    """P-D.9.5: the error comes from the child."""
    sender = Steps()
    futures = large_batch(sender)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    sender.refuse(
        sender.drain(),
        INVALID_RECORD,
        record_errors=[{"batch_index": 1, "batch_index_error_message": "bad"}],
    )
    assert not isinstance(outcome(futures[0]), InvalidRecordError)
    assert isinstance(outcome(futures[1]), InvalidRecordError)
    sender.succeed(sender.drain(), 9)
    assert [offset(each) for each in futures[2:4]] == [9, 10]


def test_children_expire_with_their_parents_time() -> None:
    """P-D.2.8, P-D.8.1: queued or in flight."""
    sender = Steps(delivery_timeout_ms=5000, request_timeout_ms=100)
    futures = large_batch(sender)
    sender.pass_time(3000)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    child = sender.drain()
    sender.pass_time(2000)
    sender.door.expire()
    assert all(isinstance(outcome(each), DeliveryTimeoutError) for each in futures)
    assert not sender.memory_is_back()
    sender.succeed(child)
    assert sender.memory_is_back()


def test_callbacks_move_to_the_children_and_are_called_once() -> None:
    """P-D.9.5: also one added after the split."""
    sender = Steps()
    futures = large_batch(sender)
    seen: list[int] = []
    for future in futures[:3]:
        future.add_callback(lambda metadata: seen.append(metadata.offset))
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    sender.engine.run_deliveries(0)
    assert seen == []
    futures[4].add_callback(lambda metadata: seen.append(metadata.offset))
    sender.succeed(sender.drain(), 10)
    sender.engine.run_deliveries(0)
    assert seen == [10, 11]
    sender.succeed(sender.drain(), 20)
    sender.engine.run_deliveries(0)
    assert seen == [10, 11, 20]
    sender.succeed(sender.drain(), 30)
    sender.engine.run_deliveries(0)
    assert seen == [10, 11, 20, 30]


def test_children_are_incomplete_in_place_of_their_parent() -> None:
    """P-D.1.2, P-D.9.6, P-A.7.5: what flush waits for."""
    sender = Steps()
    large_batch(sender)
    assert incomplete_for_test(sender.engine) == (1, 5)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    assert incomplete_for_test(sender.engine) == (3, 5)
    assert sender.engine.flush(0) == 5
    sender.succeed(sender.drain())
    assert sender.engine.flush(0) == 3
    sender.succeed(sender.drain())
    sender.succeed(sender.drain())
    assert sender.engine.flush(0) is None


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_compressed_batches_are_cut_into_plain_sizes(codec: str) -> None:
    """P-D.9.2: the topic's ratio is 1 from then on; the codec stays."""
    sender = Steps(batch_size=1000, compression_type=codec, linger_ms=1000)
    for _ in range(150):
        while len(sender.queue()) < 2:
            sender.send(b"ab" * 60)
        sender.succeed(sender.drain())
    while len(sender.queue()) < 2:
        sender.send(b"ab" * 60)
    parent = sender.drain()
    count = len(sender.values(parent))
    plain_count = (1000 - 61) // 129
    assert count > plain_count
    assert sender.door.ratio_estimate(TOPIC) < 0.6
    sender.refuse(parent, MESSAGE_TOO_LARGE)
    assert sender.door.ratio_estimate(TOPIC) == 1.0
    sizes = [each["count"] for each in sender.queue() if each["was_split"]]
    assert max(sizes) == plain_count
    assert sum(sizes) == count
    while sender.queue():
        sender.succeed(sender.drain_anyhow())
    assert sender.memory_is_back()


def test_children_near_the_wrap_go_on_from_zero() -> None:
    """P-D.9.3, P-F.5.11."""
    sender = Steps()
    sender.door.set_next_sequence(TOPIC, 0, 2**31 - 3)
    large_batch(sender)
    sender.refuse(sender.drain(), MESSAGE_TOO_LARGE)
    assert [each["sequence"] for each in sender.queue()] == [2**31 - 3, 2**31 - 1, 1]
    for _ in range(3):
        sender.succeed(sender.drain())
    sender.send()
    assert sender.sequences(sender.drain()) == [(0, 2)]
