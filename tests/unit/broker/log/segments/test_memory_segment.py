"""What memory a log takes, and how few parts a read is (contract B-C5.5, B-G3)."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc

from fastprod._core.records.record_reader import read_batches
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.memory_segment import MemorySegment
from fastprod.broker.log.segments.segment import Appended
from fastprod.broker.threads.clock import FakeClock
from support.broker.log_batches import TIME, batch, open_log


def bytes_per_log(count: int, appended: int) -> float:
    config, clock = LogConfig(), FakeClock(TIME)
    logs: list[Log] = []
    data = batch()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(count):
        logs.append(Log(None, "topic", i, config, clock))
        for _ in range(appended):
            logs[-1].append(data[:], 0)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / count


def test_an_idle_partition_costs_less_than_a_kilobyte() -> None:
    """B-G3: idle memory per partition."""
    assert bytes_per_log(200, 0) < 1024


def test_a_partition_with_one_small_batch_costs_less_than_four_kilobytes() -> None:
    """B-G3."""
    assert bytes_per_log(200, 1) < 4096


def test_small_batches_cost_little_more_than_their_bytes() -> None:
    size = len(batch())
    assert bytes_per_log(1, 8_000) < 1.15 * 8_000 * size


def test_large_and_small_batches_in_turn_waste_no_chunks() -> None:
    large, small = batch(value=b"x" * 20_000), batch()
    log = open_log(None)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100):
        log.append(large[:], 0)
        log.append(small[:], 0)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 100 * (len(large) + 2048)


def test_a_large_batch_is_served_as_the_one_object_that_holds_it() -> None:
    """B-C5.5: no copy for a reader."""
    log = open_log(None)
    log.append(batch(value=b"x" * 100_000), 0)
    (first,) = log.read(0, 1 << 20, True)
    (second,) = log.read(0, 1 << 20, True)
    assert first is second
    assert sys.getsizeof(first) > 100_000


def test_a_segment_knows_its_timestamps() -> None:
    segment = MemorySegment(10, TIME, 1 << 20)
    assert (segment.first_timestamp, segment.max_timestamp, segment.is_full) == (-1, -1, False)
    for offset, ms in ((10, 5), (11, 3), (12, 9)):
        segment.append(Appended(batch(), offset, offset, ms))
    assert (segment.first_timestamp, segment.max_timestamp) == (5, 9)
    assert segment.read(13, 100, True, 99) is None


def test_readers_see_whole_batches_while_another_thread_appends() -> None:
    log = open_log(None)
    done = threading.Event()
    faults: list[str] = []

    def follow() -> None:
        offset = 0
        while not (done.is_set() and offset == log.log_end_offset):
            for part in log.read(offset, 50_000, True):
                for found in read_batches(part):
                    if found.base_offset != offset or found.record_count != 3:
                        faults.append(repr(found))
                    offset = found.next_offset

    readers = [threading.Thread(target=follow) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(3000):
        log.append(batch(3, value=b"x" * (20_000 if i % 500 == 0 else i % 50)), 0)
    done.set()
    for reader in readers:
        reader.join(60)
    assert not any(reader.is_alive() for reader in readers)
    assert faults == []
