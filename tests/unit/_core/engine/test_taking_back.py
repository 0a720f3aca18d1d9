"""Records taken back in the queue: what leaves, what comes back, and what others notice of it."""

from __future__ import annotations

import gc

import pytest

from fastprod._core.delivery import result
from fastprod._core.delivery.future import RecordFuture
from fastprod._core.engine.control_queue import EventKind
from fastprod.errors import DeliveryTimeoutError, RecordCancelledError, RecordDeadlineError
from support.engine.sender_steps import CODECS, TIMEOUT_MS, Steps, known, offset

NOT_LEADER = 6
MESSAGE_TOO_LARGE = 10


@pytest.mark.parametrize("codec", CODECS)
def test_the_batch_leaves_without_them_and_offsets_are_the_records_own(codec: str) -> None:
    """Also under every codec; the CRC and the counts are those of what is left."""
    steps = known(compression_type=codec)
    futures = [steps.send(b"value-%d" % number, key=b"k", at_ms=number) for number in range(300)]
    back = {0, 1, 7, 64, 127, 128, 129, 298, 299}
    assert all(futures[number].cancel() for number in sorted(back, reverse=True))
    handle = steps.drain()
    (sent,) = steps.sent(handle)
    stay = [number for number in range(300) if number not in back]
    assert sent.values == [b"value-%d" % number for number in stay]
    assert [record.timestamp for record in sent.batch.records] == stay
    assert sent.batch.max_timestamp == 297
    steps.succeed(handle, base_offset=1_000)
    assert [offset(futures[number]) for number in stay] == list(range(1_000, 1_000 + len(stay)))
    assert all(futures[number].cancelled() for number in back)
    assert steps.state()["next_sequence"] == 1 + len(stay)
    assert steps.counters()["records_sent"] == len(stay)
    assert steps.counters()["records_cancelled"] == len(back)
    assert steps.memory_is_back()


def test_a_batch_of_which_nothing_is_left_gives_its_memory_back_at_once() -> None:
    """Whether it is the first of the queue, in the middle or the last; the others stay."""
    steps = known(batch_size=200)
    futures = [steps.send(b"%d" % number + bytes(100)) for number in range(5)]
    assert len(steps.queue()) == 5
    free_bytes = steps.counters()["buffer_available_bytes"]
    for number in (2, 0, 4):
        assert futures[number].cancel()
        assert steps.counters()["buffer_available_bytes"] > free_bytes
        free_bytes = steps.counters()["buffer_available_bytes"]
    assert len(steps.queue()) == 2
    later = steps.send(b"later")
    steps.succeed_queue()
    assert all(futures[number].succeeded() for number in (1, 3))
    assert later.succeeded()
    assert steps.memory_is_back()


def test_the_partition_is_forgotten_with_its_last_record() -> None:
    """Or a transaction, or close(), would wait for it."""
    steps = known()
    future = steps.send()
    assert steps.state()["is_listed"]
    future.cancel()
    assert steps.nothing_goes()
    assert not steps.state()["is_listed"]
    assert steps.door.expire() is None


def test_a_split_batch_keeps_the_records_places() -> None:
    steps = known()
    futures = [steps.send(b"%d" % number) for number in range(9)]
    for number in (0, 4, 5):
        futures[number].cancel()
    steps.refuse(steps.drain(), MESSAGE_TOO_LARGE)
    places: dict[bytes | None, int] = {}
    while steps.queue():
        handle = steps.drain()
        base = 50 + len(places)
        places.update({value: base + at for at, value in enumerate(steps.values(handle))})
        steps.succeed(handle, base_offset=base)
    assert list(places) == [b"1", b"2", b"3", b"6", b"7", b"8"]
    for number in (1, 2, 3, 6, 7, 8):
        assert offset(futures[number]) == places[b"%d" % number]


def test_a_record_that_the_broker_names_is_the_right_one() -> None:
    """P-F.4.5: the broker counts what arrived."""
    steps = known()
    futures = [steps.send(b"%d" % number) for number in range(4)]
    futures[1].cancel()
    bad = [{"batch_index": 1, "batch_index_error_message": "no"}]
    steps.refuse(steps.drain(), 87, record_errors=bad)
    assert "no" in str(futures[2].exception(0))
    assert "part of a batch" in str(futures[0].exception(0))
    assert "part of a batch" in str(futures[3].exception(0))


def test_what_expires_or_is_aborted_counts_without_them() -> None:
    steps = known()
    futures = [steps.send(b"%d" % number) for number in range(6)]
    assert futures[2].cancel()
    steps.pass_time(TIMEOUT_MS)
    steps.door.expire()
    error = futures[0].exception(0)
    assert isinstance(error, DeliveryTimeoutError)
    assert error.record_count == 5
    assert isinstance(futures[2].exception(0), RecordCancelledError)
    (event,) = steps.events(EventKind.ON_FAILED)
    assert event.item_count == 5
    more = [steps.send(b"%d" % number) for number in range(3)]
    assert more[0].cancel()
    assert steps.engine.flush(0) == 2
    steps.door.throw_away()
    assert not more[1].cancel()
    assert steps.counters()["records_aborted"] == 2
    assert steps.memory_is_back()


def test_records_that_come_later_join_a_batch_with_gaps() -> None:
    steps = known()
    futures = [steps.send(b"%d" % number) for number in range(3)]
    futures[2].cancel()
    futures.append(steps.send(b"3"))
    futures[0].cancel()
    handle = steps.drain()
    assert steps.values(handle) == [b"1", b"3"]
    steps.refuse(handle, NOT_LEADER)
    steps.pass_time(1000)
    handle = steps.drain()
    assert steps.values(handle) == [b"1", b"3"]
    steps.succeed(handle, base_offset=7)
    assert (offset(futures[1]), offset(futures[3])) == (7, 8)


def test_at_its_deadline_a_record_fails_alone() -> None:
    """Queued: it is taken back. Under way, split or to be sent again: it may arrive."""
    steps = known()
    futures = [steps.send(b"%d" % number) for number in range(5)]
    assert not missed(futures[1]).was_sent
    handle = steps.drain()
    assert steps.values(handle) == [b"0", b"2", b"3", b"4"]
    assert missed(futures[2]).was_sent
    steps.refuse(handle, MESSAGE_TOO_LARGE)
    assert missed(futures[3]).was_sent
    values: list[bytes | None] = []
    while steps.queue():
        handle = steps.drain()
        base_offset = 10 + len(values)
        values += steps.values(handle)
        steps.succeed(handle, base_offset=base_offset)
    assert values == [b"0", b"2", b"3", b"4"]
    assert futures[0]._miss_deadline(1) is None
    assert (offset(futures[0]), offset(futures[4])) == (10, 13)
    assert steps.memory_is_back()


def test_callbacks_of_a_record_at_its_deadline_are_told_once() -> None:
    steps = known()
    late, other = steps.send(b"late"), steps.send(b"other")
    seen: list[object] = []
    late.add_done_callback(seen.append)
    other.add_done_callback(seen.append)
    handle = steps.drain()
    error = late._miss_deadline(2_500)
    assert isinstance(error, RecordDeadlineError)
    assert error.deadline_ms == 2.5
    assert (seen, late.done()) == ([], False)
    steps.engine.run_deliveries(0)
    assert (seen, late.done(), other.done()) == ([late], True, False)
    steps.succeed(handle)
    steps.engine.run_deliveries(0)
    assert seen == [late, other]


def test_a_transaction_that_ends_is_told_of_a_missed_deadline() -> None:
    steps = Steps([(0, 0)], transactional_id="ledger", has_producer_id=False)
    steps.engine.set_producer_id(4000, 0)
    for begins in (1, 2):
        steps.engine.begin_transaction(adds_implicitly=True)
        steps.door.obey()
        late = steps.send()
        if begins == 1:
            missed(late)
        else:
            steps.succeed(steps.drain())
        steps.engine.end_transaction(begins)
        steps.door.obey()
        steps.nothing_goes()
        (event,) = steps.events(EventKind.ON_TRANSACTION_DRAINED)
        assert event.code == (result.ERR_DEADLINE if begins == 1 else 0)
        assert event.item_count == begins - 1


def missed(future: RecordFuture) -> RecordDeadlineError:
    error = future._miss_deadline(1)
    assert isinstance(error, RecordDeadlineError)
    assert future.exception(0) is not None
    return error


def test_a_future_outlives_its_engine() -> None:
    future = Steps().send()
    gc.collect()
    assert not future.cancel()
