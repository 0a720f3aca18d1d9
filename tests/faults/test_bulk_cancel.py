"""Bulks taken back: what has not left of them never arrives, and nobody else notices (P-A.3.13)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import numpy as np
import pytest

from fastprod import KafkaProducer, ProducerInterceptor
from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.errors import BulkError, RecordCancelledError, RecordTooLargeError
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, PRODUCE
from support.engine.event_loops import quick_async_producer, settle
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

LONG_MS = 60_000
ROUNDS = 40
CANCELLED = -2


class Listener(ProducerInterceptor):
    """What it was told of."""

    def __init__(self) -> None:
        self.told: list[tuple[int, type]] = []

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any = None) -> None:
        self.told.append((metadata.offset, type(error)))


def let_go(peer: Peer) -> None:
    """What it holds, or is just about to."""
    peer.wait_until_held()
    peer.clear_script()
    peer.release()


def values_of(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}.{number}".encode() for number in range(count)]


def send_to_first(producer: KafkaProducer, values: list[bytes]) -> BulkFuture:
    return producer.send_many("t", values, partitions=[0] * len(values))


def check_rows(bulk: BulkFuture, values: list[bytes], arrived: list[bytes | None]) -> int:
    """Each row is where its offset says, or was taken back; returns how many were."""
    where = bulk.arrays(WAIT_S)
    for value, partition, offset in zip(values, where.partitions, where.offsets, strict=True):
        if partition == CANCELLED:
            assert value not in arrived
        else:
            assert (partition, arrived[offset]) == (0, value)
    cancelled = [row for row, error in bulk.failures(0) if isinstance(error, RecordCancelledError)]
    assert cancelled == np.flatnonzero(where.partitions == CANCELLED).tolist()
    return len(cancelled)


@pytest.mark.parametrize("compression_type", ["none", "lz4"])
def test_none_of_it_arrives_and_the_neighbours_keep_their_offsets(
    peer: Peer, compression_type: str
) -> None:
    """It shares batches with records before it, in its midst and behind it."""
    told: list[tuple[BulkFuture, threading.Thread]] = []
    with quick_producer(peer, linger_ms=LONG_MS, compression_type=compression_type) as producer:
        producer.warmup("t")
        single = [producer.send("t", b"before", partition=n) for n in range(2)]
        bulk = producer.send_many("t", values_of("bulk", 300), partitions=[0, 1, 0] * 100)
        bulk.add_done_callback(lambda each: told.append((each, threading.current_thread())))
        other = send_to_first(producer, values_of("other", 3))
        single += [producer.send("t", b"after", partition=n) for n in range(2)]
        assert not bulk.cancelled()
        assert bulk.cancel()
        assert told == [(bulk, threading.current_thread())]
        assert bulk.done()
        assert bulk.cancelled()
        assert bulk.cancel()
        assert not other.done()
        assert not any(each.done() for each in single)
        with pytest.raises(concurrent.futures.CancelledError) as caught:
            bulk.result(0)
        error = caught.value
        assert isinstance(error, BulkError)
        assert (error.failed_count, error.record_count, error.first_index) == (300, 300, 0)
        assert isinstance(error.__cause__, RecordCancelledError)
        failed = bulk.failed_rows(0)
        assert [(each.row, each.value_size_bytes) for each in failed[:2]] == [(0, 6), (1, 6)]
        assert {each.error.partition for each in failed} == {0, 1}
        where = bulk.arrays(0)
        assert where.partitions.tolist() == [CANCELLED] * 300
        assert where.offsets.tolist() == where.timestamps.tolist() == [-1] * 300
        assert bulk.delivered(0).record_count == 0
        producer.flush(WAIT_S)
        assert peer.values("t", 0) == [b"before", *values_of("other", 3), b"after"]
        assert peer.values("t", 1) == [b"before", b"after"]
        assert check_rows(other, values_of("other", 3), peer.values("t", 0)) == 0
        assert [each.result(0).offset for each in single] == [0, 0, 4, 1]
        assert producer._engine.counters()["records_cancelled"] == 300
    assert len(told) == 1


def test_what_has_left_goes_on_and_the_answer_is_false(peer: Peer) -> None:
    told: list[BulkFuture] = []
    with quick_producer(peer, linger_ms=0, batch_size=1_000) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().once()
        values = values_of("bulk", 500)
        bulk = send_to_first(producer, values)
        bulk.add_done_callback(told.append)
        peer.wait_until_held()
        assert not bulk.cancel()
        assert not bulk.cancelled()
        assert not bulk.done()
        peer.release()
        error = bulk.exception(WAIT_S)
        assert isinstance(error, BulkError)
        assert not isinstance(error, concurrent.futures.CancelledError)
        arrived = peer.values("t", 0)
        assert 0 < len(arrived) < 500
        assert check_rows(bulk, values, arrived) == 500 - len(arrived) == error.failed_count
        assert bulk.delivered(0).record_count == len(arrived)
        assert not bulk.cancel()
        later = send_to_first(producer, values_of("later", 5))
        assert later.result(WAIT_S).ranges[0].first_offset == len(arrived)
        assert not later.cancel()
        assert not later.cancelled()
    assert told == [bulk]


def test_who_waits_for_it_goes_on(peer: Peer) -> None:
    """Threads and tasks, though the batch, which others share, has not ended."""
    peer.on(INIT_PRODUCER_ID).hold()
    found: list[BaseException | None] = []
    with quick_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer:
        producer.partitions_for("t")
        other = producer.send("t", b"other", partition=0)
        bulk = send_to_first(producer, values_of("bulk", 20))

        async def main() -> None:
            tasks = [asyncio.create_task(wait()) for _ in range(2)]
            await settle()
            assert await asyncio.to_thread(bulk.cancel)
            await asyncio.wait(tasks, timeout=WAIT_S)
            found.extend(task.exception() for task in tasks)

        async def wait() -> None:
            await bulk

        thread = threading.Thread(target=lambda: found.append(bulk.exception(WAIT_S)))
        thread.start()
        asyncio.run(main())
        thread.join(2 * WAIT_S)
        assert [isinstance(each, concurrent.futures.CancelledError) for each in found] == [True] * 3
        assert not other.done()
        let_go(peer)
        assert other.result(WAIT_S).offset == 0
    assert peer.values("t", 0) == [b"other"]


def test_interceptors_are_told_of_each_record_once(peer: Peer) -> None:
    listener = Listener()
    with quick_producer(peer, linger_ms=LONG_MS, interceptor_classes=[listener]) as producer:
        producer.warmup("t")
        told: list[BulkFuture] = []
        bulks = [send_to_first(producer, values_of(name, 3)) for name in ("back", "stays")]
        for bulk in bulks:
            bulk.add_done_callback(told.append)
        assert bulks[0].cancel()
        assert [offset for offset, _ in listener.told] == [-1] * 3
        assert all(issubclass(kind, RecordCancelledError) for _, kind in listener.told)
        assert told == bulks[:1]
        producer.flush(WAIT_S)
        assert listener.told[3:] == [(n, type(None)) for n in range(3)]
        assert told == bulks
    assert peer.values("t", 0) == values_of("stays", 3)


def test_rows_that_never_had_a_batch_keep_their_errors(peer: Peer) -> None:
    with quick_producer(peer, linger_ms=LONG_MS, max_request_size=5_000) as producer:
        producer.warmup("t")
        bulk = send_to_first(producer, [b"back", bytes(6_000), b"back"])
        assert bulk.cancel()
        errors = [error for _, error in bulk.failures(0)]
        assert [isinstance(each, RecordCancelledError) for each in errors] == [True, False, True]
        assert isinstance(errors[1], RecordTooLargeError)
        refused = send_to_first(producer, [bytes(6_000)])
        assert not refused.cancel()
        assert not refused.cancelled()
    assert peer.values("t", 0) == []


def test_cancel_races_with_the_io_thread(peer: Peer) -> None:
    """Each row arrives, or says that it was taken back: nothing is both, nothing is neither."""
    with quick_producer(peer, linger_ms=0, batch_size=1_000) as producer:
        producer.warmup("t")
        bulks: list[tuple[list[bytes], BulkFuture]] = []
        answers: list[tuple[BulkFuture, bool]] = []
        for number in range(ROUNDS):
            values = values_of(str(number), 100)
            bulk = send_to_first(producer, values)
            bulks.append((values, bulk))
            threads = [
                threading.Thread(target=lambda each=bulk: answers.append((each, each.cancel())))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_S)
        producer.flush(WAIT_S)
        arrived = peer.values("t", 0)
        cancelled = [check_rows(bulk, values, arrived) for values, bulk in bulks]
        assert sum(cancelled) + len(arrived) == 100 * ROUNDS
        assert len(answers) == 2 * ROUNDS
        assert all(bulk.cancelled() is answer for bulk, answer in answers)
        assert [bulk.cancelled() for _, bulk in bulks] == [each == 100 for each in cancelled]

        def is_back() -> bool:
            found = producer._engine.counters()
            return bool(found["buffer_available_bytes"] == found["buffer_total_bytes"])

        peer.wait_until(is_back, WAIT_S, "the pool whole again")


def test_a_task_that_is_cancelled_takes_its_bulk_back(peer: Peer) -> None:
    peer.on(INIT_PRODUCER_ID).hold()

    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer:
            await asyncio.wait_for(producer.partitions_for("t"), WAIT_S)
            task = asyncio.create_task(
                producer.send_many("t", values_of("back", 100), partitions=[0] * 100)
            )
            counters = producer._producer._engine.counters
            total_bytes = counters()["buffer_total_bytes"]
            while counters()["buffer_available_bytes"] == total_bytes:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task], timeout=WAIT_S)
            assert task.cancelled()
            while counters()["records_cancelled"] < 100:  # perhaps by the thread that reads columns
                await asyncio.sleep(0.001)
            let_go(peer)
            stays = producer.send("t", b"stays", partition=0)
            assert (await asyncio.wait_for(stays, WAIT_S)).offset == 0
        assert peer.values("t", 0) == [b"stays"]

    asyncio.run(main())
