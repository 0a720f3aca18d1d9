"""Batches filled by callers (contract P-D.1, P-D.2, P-D.4), by way of the sender's door.

P-L.39, P-L.40, P-L.43, P-L.58, P-L.59, P-L.60, P-L.62, P-L.73 and P-L.75 (RecordAccumulatorTest,
ProducerBatchTest) as far as filling is concerned; emptying is test_drain.py's.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import pytest

from support.engine.sender_steps import START_MS, TOPIC, Steps, outcome
from support.oracle import record_batch as oracle

HEADER = 61
BATCH = 1024
BLOCK = 32768
SMALL = 4096
RECORD = b"x" * 100
RECORD_BYTES = len(oracle.encode_record((1, None, RECORD), 0, 1))
"""The same for the first sixty-four offsets."""
MESSAGE_TOO_LARGE = 10


def steps(**config: object) -> Steps:
    return Steps(**{"batch_size": BATCH, "linger_ms": 1000, **config})  # type: ignore[arg-type]


def test_a_batch_takes_records_up_to_the_batch_size_and_not_one_more() -> None:
    """P-L.39 testFull, P-D.2.7, P-D.4.1, P-D.4.2, P-E.1.1: 61 bytes of header count."""
    sender = steps()
    fitting = (BATCH - HEADER) // RECORD_BYTES
    for _ in range(fitting):
        sender.send(RECORD)
        assert len(sender.queue()) == 1
    assert sender.door.ready(0)[0] is False
    assert sender.queue()[0]["estimate"] == HEADER + fitting * RECORD_BYTES

    sender.send(RECORD)
    assert [each["count"] for each in sender.queue()] == [fitting, 1]
    handle = sender.drain()
    assert sender.values(handle) == [RECORD] * fitting, "the first batch holds all before"
    assert len(sender.queue()) == 1


def test_a_record_that_fills_the_batch_exactly_makes_it_full() -> None:
    """P-D.4.2: the estimate without a codec is the size itself."""
    sender = steps()
    overhead = len(oracle.encode_record((1, None, b"x" * 900), 0, 1)) - 900
    sender.send(b"x" * (BATCH - HEADER - overhead - 1))
    assert not sender.queue()[0]["is_full"]
    other = steps()
    other.send(b"x" * (BATCH - HEADER - overhead))
    assert other.queue()[0]["is_full"]
    assert other.queue()[0]["estimate"] == BATCH
    assert other.door.ready(0)[0], "full overrides linger (P-D.5.2)"


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_a_record_of_twice_the_batch_size_gets_a_batch_of_its_own(codec: str) -> None:
    """P-L.40 testAppendLarge, testAppendLargeCompressed, ...NonCompressed; P-D.2.7; P-L.185
    testSmallWriteLimit: the first record of a batch always fits."""
    sender = steps(compression_type=codec)
    large = random.Random(7).randbytes(2 * BATCH)
    sender.send(b"small")
    sender.send(large)
    sender.send(b"small")
    assert [each["count"] for each in sender.queue()] == [1, 1, 1]
    assert sender.door.ready(0)[0]
    handle = sender.drain()
    assert sender.batch_values(handle) == [[b"small"]]
    sender.succeed(handle)
    assert sender.batch_values(sender.drain()) == [[large]]


def test_a_batch_that_left_takes_no_more_records() -> None:
    """P-L.75 testShouldNotAttemptAppendOnceRecordsBuilderIsClosedForAppends, P-D.4.1."""
    sender = steps(linger_ms=0)
    sender.send(b"a")
    handle = sender.drain()
    sender.send(b"b")
    assert sender.values(handle) == [b"a"]
    assert [each["count"] for each in sender.queue()] == [1]


def test_a_retried_batch_at_the_head_is_never_added_to() -> None:
    """P-D.2.9."""
    sender = steps(linger_ms=0)
    sender.send(b"a")
    sender.door.fail(sender.drain())
    sender.send(b"b")
    sender.send(b"c")
    assert [each["count"] for each in sender.queue()] == [1, 2]


def test_a_batch_is_as_old_as_its_first_record() -> None:
    """P-D.2.8: neither an append, nor a retry, changes when it was created."""
    sender = steps()
    sender.send()
    sender.pass_time(300)
    sender.send()
    assert sender.queue()[0]["created_ms"] == START_MS
    sender.pass_time(700)
    sender.door.fail(sender.drain())
    assert sender.queue()[0]["created_ms"] == START_MS


def test_timestamps_headers_and_keys_arrive_as_they_were_given() -> None:
    """P-D.2.8, P-L.73: the header has the first timestamp and the largest."""
    sender = steps()
    headers = oracle.encode_headers((("trace", b"1"), ("none", None)))
    for at_ms in (50, 20, 90):
        sender.door.append(TOPIC, b"v%d" % at_ms, b"k", 0, at_ms, headers)
    batch = sender.sent(sender.drain_anyhow())[0].batch
    assert batch.base_timestamp == 50
    assert batch.max_timestamp == 90
    assert batch.records == [
        oracle.Record(at_ms, b"k", b"v%d" % at_ms, (("trace", b"1"), ("none", None)))
        for at_ms in (50, 20, 90)
    ]
    assert batch.offsets == [0, 1, 2]


def test_a_closed_accumulator_takes_nothing_and_keeps_no_memory() -> None:
    """P-D.2.4, P-D.2.5: also for a caller that had waited for its memory meanwhile."""
    sender = steps()
    sender.engine.close_accumulator()
    with pytest.raises(OSError, match="closed"):
        sender.door.append(TOPIC, b"v", None, 0)
    assert sender.memory_is_back()


def test_memory_waited_for_and_not_needed_goes_back() -> None:
    """P-D.2.4: another thread had made the batch by then."""
    sender = steps()
    sender.send(b"a")
    free = sender.counters()["buffer_available_bytes"]
    assert sender.door.append(TOPIC, b"b", None, 0, waited_for_bytes=32768) is not None
    assert sender.counters()["buffer_available_bytes"] == free


def test_memory_waited_for_is_used_for_the_record() -> None:
    """P-D.2.1: allocated once, outside the lock."""
    sender = steps(buffer_memory=BLOCK + 2 * SMALL, batch_size=65536)
    sender.door.hold_memory(BLOCK)
    assert sender.door.append(TOPIC, b"x" * 6000, None, 0, waited_for_bytes=2 * SMALL) is not None
    assert sender.counters()["buffer_available_bytes"] == 0
    assert sender.queue()[0]["count"] == 1


def test_a_caller_without_memory_is_told_the_whole_of_what_it_needs() -> None:
    """P-D.2.1, P-D.2.2: the part it brought has gone back; waiting for the rest alone could go on
    and on, the one part and the other by turns."""
    sender = steps(buffer_memory=4 * BLOCK, batch_size=65536)
    sender.door.hold_memory(3 * BLOCK)
    value = b"x" * 40_000
    size = len(oracle.encode_record((1, None, value), 0, 1))
    assert sender.door.append(TOPIC, value, None, 0) is None
    assert sender.door.need_bytes == size
    assert sender.door.append(TOPIC, value, None, 0, waited_for_bytes=16384) is None
    assert sender.door.need_bytes == size
    assert sender.counters()["buffer_available_bytes"] == BLOCK


def test_an_open_batch_without_memory_asks_for_what_it_lacks() -> None:
    """P-D.2.1: it keeps what it has, and stays open."""
    sender = steps(buffer_memory=2 * BLOCK + SMALL, batch_size=65536)
    sender.door.hold_memory(2 * BLOCK)
    sender.send(b"x" * 4000)
    assert sender.door.append(TOPIC, b"x" * 4000, None, 0) is None
    room = SMALL - len(oracle.encode_record((1, None, b"x" * 4000), 0, 1))
    assert sender.door.need_bytes == len(oracle.encode_record((1, None, b"x" * 4000), 0, 1)) - room
    assert [each["count"] for each in sender.queue()] == [1]
    sender.door.hold_memory(0)
    sender.send(b"x" * 4000)
    assert [each["count"] for each in sender.queue()] == [2]


def test_each_partition_has_a_queue_of_its_own() -> None:
    """P-D.1.1."""
    sender = Steps([(0, 0), (0, 0), (1, 0)], linger_ms=1000)
    for partition in (0, 1, 1, 2):
        sender.send(b"%d" % partition, partition)
    assert [len(sender.queue(index)) for index in range(3)] == [1, 1, 1]
    assert [sender.queue(index)[0]["count"] for index in range(3)] == [1, 2, 1]
    assert [sender.queue(index)[0]["partition"] for index in range(3)] == [0, 1, 2]


def test_partitions_may_be_added_while_records_wait() -> None:
    """P-D.1.1: queues stay what they are."""
    sender = Steps([(0, 0)], linger_ms=0)
    sender.send(b"a", 0)
    sender.lead([(0, 0), (0, 0), (0, 0)])
    sender.send(b"b", 2)
    sent = sender.sent(sender.drain())
    assert [(each.partition, each.values) for each in sent] == [(0, [b"a"]), (2, [b"b"])]


def test_partitions_that_are_gone_get_nothing_more_and_keep_what_they_hold() -> None:
    """P-H.4.2: a topic made anew may have fewer."""
    sender = Steps([(0, 0)] * 8, batch_size=BATCH, linger_ms=0)
    for partition in range(8):
        sender.send(b"old", partition)
    sender.lead([(0, 0)])
    for _ in range(500):
        assert sender.door.append(TOPIC, RECORD) is not None
    assert sender.door.sticky_partition(TOPIC) == 0
    assert [len(sender.queue(index)) for index in range(1, 8)] == [1] * 7
    assert {each.partition for each in sender.sent(sender.drain())} == {0}
    sender.lead([(0, 0)] * 8)
    assert {each.partition for each in sender.sent(sender.drain())} == set(range(1, 8))


def test_keyless_records_stay_on_a_partition_until_the_batch_is_complete() -> None:
    """P-L.60 testUniformBuiltInPartitioner, P-C.5.2, P-C.5.3: then the partition changes, or is
    chosen again."""
    sender = Steps([(0, 0)] * 4, batch_size=BATCH, linger_ms=1000)
    fitting = (BATCH - HEADER) // RECORD_BYTES
    used = []
    for _ in range(20 * fitting):
        assert sender.door.append(TOPIC, RECORD) is not None
        used.append(sender.door.sticky_partition(TOPIC))
    batches = [each for index in range(4) for each in sender.queue(index)]
    assert sum(each["count"] for each in batches) == 20 * fitting
    not_full = [each["count"] for each in batches if each["count"] != fitting]
    assert len(not_full) <= 4, "one open batch a partition at most"
    assert len(set(used)) > 1


def test_lingering_batches_are_never_fractions() -> None:
    """P-L.62 testBuiltInPartitionerFractionalBatches: two thirds of a batch every linger, each is
    more than half a batch and less than one."""
    sender = Steps([(0, 0)] * 3, batch_size=512, linger_ms=100)
    for _ in range(30):
        for _ in range(512 * 2 // 3 // 32):
            assert sender.door.append(TOPIC, b"x" * 32) is not None
        sender.pass_time(100)
        handle = sender.drain()
        (raw,) = sender.raw(handle)
        assert 512 // 2 < len(raw) < 512
        sender.succeed(handle)


def test_explicit_partitions_leave_the_sticky_one_alone() -> None:
    """P-C.5.8."""
    sender = Steps([(0, 0)] * 4, batch_size=BATCH)
    sender.door.append(TOPIC, b"v")
    sticky = sender.door.sticky_partition(TOPIC)
    for _ in range(200):
        sender.send(RECORD, 3)
    assert sender.door.sticky_partition(TOPIC) == sticky


def _compressible(good_percent: int) -> Callable[[random.Random], bytes]:
    def value(source: random.Random) -> bytes:
        if source.randrange(100) < good_percent:
            return b"ab" * 60
        return source.randbytes(120)

    return value


@pytest.mark.parametrize("good_percent", range(1, 100, 14))
def test_few_batches_are_too_large_whatever_the_mix_of_records(good_percent: int) -> None:
    """P-L.59 testSplitFrequency, P-E.7.5: less than one batch in ten has to be split."""
    source = random.Random(good_percent)
    make = _compressible(good_percent)
    sender = steps(compression_type="gzip", linger_ms=0, enable_idempotence=False)
    splits = batches = 0
    for _ in range(400):
        while len(sender.queue()) < 2:
            sender.send(make(source))
        handle = sender.drain()
        batches += 1
        size = len(sender.raw(handle)[0])
        if size > BATCH and sender.door.batches(handle)[0]["count"] > 1:
            splits += 1
            sender.refuse(handle, MESSAGE_TOO_LARGE)
            sender.succeed(sender.drain())
            continue
        sender.succeed(handle)
    assert splits * 10 < batches, f"{splits} of {batches}"


def test_a_compressed_batch_gathers_more_than_the_batch_size_of_plain_records() -> None:
    """P-D.2.7, P-E.7.2: once the topic's ratio is known."""
    sender = steps(compression_type="gzip", linger_ms=0)
    counts = []
    for _ in range(100):
        while len(sender.queue()) < 2:
            sender.send(b"ab" * 60)
        handle = sender.drain()
        counts.append(sender.door.batches(handle)[0]["count"])
        assert len(sender.raw(handle)[0]) <= BATCH
        sender.succeed(handle)
    assert counts[0] == (BATCH - HEADER) * 100 // 105 // 129
    assert counts == sorted(counts)
    assert counts[-1] > 3 * counts[0] // 2


def test_the_ratio_estimate_rises_at_once_and_sinks_slowly() -> None:
    """P-E.7.5, P-E.7.6, P-D.4.4, P-L.186 CompressionRatioEstimatorTest: never below what was seen
    last.
    """
    sender = steps(compression_type="gzip", linger_ms=0)
    before = sender.door.ratio_estimate(TOPIC)
    assert before == 1.0
    source = random.Random(3)
    for value in (b"ab" * 300, source.randbytes(5), b"ab" * 300, source.randbytes(200)):
        sender.send(value)
        plain_bytes = len(oracle.encode_record((1, None, value), 0, 1))
        handle = sender.drain()
        seen = (len(sender.raw(handle)[0]) - HEADER) * 1000 // plain_bytes / 1000
        expected = max(before + 0.05, seen) if seen > before else max(before - 0.005, seen)
        before = sender.door.ratio_estimate(TOPIC)
        assert before == pytest.approx(expected)
        assert before >= seen
        sender.succeed(handle)


def test_room_is_asked_for_in_plain_bytes() -> None:
    """P-E.7.4: a record that would fit compressed opens a batch of its own."""
    sender = steps(compression_type="gzip", linger_ms=0)
    for _ in range(60):
        sender.send(b"ab" * 60)
        sender.succeed(sender.drain())
    sender.send(b"ab")
    estimate = sender.queue()[0]["estimate"]
    room = BATCH - estimate
    sizes = [len(oracle.encode_record((1, None, b"a" * n), 1, 1)) for n in range(BATCH)]
    fitting = max(n for n, size in enumerate(sizes) if size <= room)
    sender.send(b"a" * (fitting + 1))
    assert [each["count"] for each in sender.queue()] == [1, 1]
    other = steps(compression_type="gzip", linger_ms=0)
    for _ in range(60):
        other.send(b"ab" * 60)
        other.succeed(other.drain())
    other.send(b"ab")
    other.send(b"a" * fitting)
    assert [each["count"] for each in other.queue()] == [2]


def test_split_children_are_outside_the_pool() -> None:
    """P-L.58 testSplitBatchOffAccumulator, P-D.3.10: the pool is whole while they are drained."""
    sender = Steps(batch_size=BATCH, compression_type="gzip", linger_ms=1000)
    value = b"ab" * 60
    for _ in range(100):
        while len(sender.queue()) < 2:
            sender.send(value)
        sender.succeed(sender.drain_anyhow())
    while len(sender.queue()) < 2:
        sender.send(value)
    large = sender.drain_anyhow()
    sender.succeed_queue()
    assert sender.door.batches(large)[0]["count"] > 10
    sender.refuse(large, MESSAGE_TOO_LARGE)
    found = sender.counters()
    assert len(sender.queue()) > 1
    assert found["buffer_available_bytes"] == found["buffer_total_bytes"]
    assert found["heap_bytes"] > 0
    sender.succeed_queue()
    assert sender.memory_is_back()


def test_a_batch_knows_its_bytes_before_and_after_compression() -> None:
    """P-E.7.2: an estimate while it is open, the size itself once it is sealed."""
    sender = steps(compression_type="gzip")
    sender.send(RECORD)
    assert sender.queue()[0]["estimate"] == HEADER + RECORD_BYTES * 105 // 100
    handle = sender.drain_anyhow()
    raw = sender.raw(handle)[0]
    assert sender.door.batches(handle)[0]["estimate"] == len(raw)
    assert zlib.decompress(raw[HEADER:], 31).endswith(RECORD + b"\0")


def test_futures_of_one_batch_have_consecutive_offsets() -> None:
    """P-A.2.3."""
    sender = steps()
    futures = [sender.send(b"%d" % i) for i in range(5)]
    sender.succeed(sender.drain_anyhow(), 45)
    assert [outcome(each).offset for each in futures] == [45, 46, 47, 48, 49]  # type: ignore[union-attr]


def test_callbacks_may_run_before_their_sender_is_back() -> None:
    """A large record is appended without the GIL, and may be acknowledged before the sender has it
    again: the future knows its result from the append, not from its sender. Contract P-A.3.13."""
    sender = steps()
    told: list[tuple[int, int]] = []
    sender.send(b"first")
    future = sender.door.append(
        TOPIC, b"second", partition=0, on_delivery=lambda each, _: told.append(each[1:3])
    )
    assert future is not None
    sender.succeed(sender.drain_anyhow(), base_offset=7)
    sender.engine.run_deliveries(0)
    assert told == [(0, 8)]
    assert future.result(0).offset == 8
