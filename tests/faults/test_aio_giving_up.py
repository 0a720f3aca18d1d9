"""Records of event loops that are given up: at their own deadlines, and by `purge`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from fastprod.aio import async_producer
from fastprod.errors import (
    BufferExhaustedError,
    MetadataTimeoutError,
    ProducerClosedError,
    RecordDeadlineError,
    RecordPurgedError,
)
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.engine.quick_producer import WAIT_S
from support.peer.scripted_peer import Peer

HOUR_S = 3600.0
LONG_MS = 600_000


def let_go(peer: Peer) -> None:
    peer.clear_script()
    peer.release()


def unchanged(value: bytes) -> bytes:
    return value


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, WAIT_S)


async def error_of(awaitable: Any) -> Any:
    (found,) = await soon(asyncio.gather(awaitable, return_exceptions=True))
    return found


@EVERY_LOOP
def test_a_record_that_cannot_leave_fails_at_its_deadline_and_never_arrives(
    peer: Peer, run: Run
) -> None:
    """Its neighbours in the batch go without it, and the loop goes on meanwhile."""
    peer.on(INIT_PRODUCER_ID).hold()

    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer:
            await soon(producer.partitions_for("t"))
            before = producer.send_nowait("t", b"before", partition=0)
            began_s = time.monotonic()
            late = asyncio.create_task(producer.send("t", b"late", partition=0, deadline=0.05))
            await settle()
            dropped = producer.send_nowait("t", b"dropped", partition=0, deadline=0.05)
            after = producer.send_nowait("t", b"after", partition=0, deadline=HOUR_S)
            error = await error_of(late)
            assert time.monotonic() - began_s >= 0.05
            assert isinstance(error, RecordDeadlineError)
            assert (error.was_sent, error.deadline_ms, error.partition) == (False, 50, 0)
            assert isinstance(await error_of(dropped), RecordDeadlineError)
            assert not before.done()
            peer.wait_until_held()
            let_go(peer)
            assert [(await soon(each)).offset for each in (before, after)] == [0, 1]
        assert peer.values("t", 0) == [b"before", b"after"]

    run(main())


@EVERY_LOOP
def test_a_record_under_way_fails_and_its_batch_goes_on(peer: Peer, run: Run) -> None:
    """Nobody knows whether it is written, and the error says so; here it is."""

    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=0) as producer:
            await soon(producer.warmup("t"))
            peer.on(PRODUCE).hold().once()
            late = producer.send_nowait("t", b"late", partition=0, deadline=HOUR_S)
            waiting = asyncio.create_task(error_of(late))
            await settle()
            peer.wait_until_held()
            other = producer.send_nowait("t", b"other", partition=0)
            # As the thread does that keeps deadlines.
            assert await asyncio.to_thread(late.record._miss_deadline, 1)
            error = await soon(waiting)
            assert isinstance(error, RecordDeadlineError)
            assert error.was_sent
            peer.release()
            assert (await soon(other)).offset == 1
        assert peer.values("t", 0) == [b"late", b"other"]

    run(main())


@pytest.mark.parametrize(
    "settings", [{}, {"value_serializer": unchanged}], ids=["plain", "plugged"]
)
def test_what_send_awaits_is_bounded_too(peer: Peer, settings: dict[str, Any]) -> None:
    """Metadata and memory; the error names which of them did not come."""
    rule = peer.on(METADATA).hold()

    async def main() -> None:
        async with quick_async_producer(
            peer, max_block_ms=LONG_MS, linger_ms=0, buffer_memory=1 << 16, **settings
        ) as producer:
            error = await error_of(producer.send("t", b"x", deadline=0.05))
            assert isinstance(error, MetadataTimeoutError)
            peer.wait_until_held()
            rule.cancel()
            peer.release()
            await soon(producer.warmup("t"))
            peer.on(PRODUCE).hold().always()
            while not producer.send_nowait("t", bytes(10_000), partition=0).done():
                pass
            error = await error_of(producer.send("t", bytes(10_000), deadline=0.05))
            assert isinstance(error, BufferExhaustedError)
            assert error.waited_ms == 50
            peer.wait_until_held()
            let_go(peer)

    asyncio.run(main())


def test_a_deadline_that_cannot_be_is_refused_before_anything_is_queued(peer: Peer) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            for deadline in (0, -1, float("nan")):
                with pytest.raises(ValueError, match="deadline = "):
                    await producer.send("t", b"x", deadline=deadline)
                with pytest.raises(ValueError, match="deadline = "):
                    producer.send_nowait("t", b"x", deadline=deadline)
            sends = [producer.send("t", b"in time", partition=0, deadline=HOUR_S) for _ in range(9)]
            assert len(await soon(asyncio.gather(*sends))) == 9
        assert peer.values("t", 0) == [b"in time"] * 9

    asyncio.run(main())


@EVERY_LOOP
def test_purge_fails_what_is_queued_and_then_what_is_under_way(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=LONG_MS) as producer:
            await soon(producer.warmup("t"))
            peer.on(PRODUCE).hold().once()
            away = producer.send_nowait("t", b"away", partition=0)
            flushing = asyncio.create_task(producer.flush())  # so that it goes
            await settle()
            peer.wait_until_held()
            flushing.cancel()
            await asyncio.wait([flushing], timeout=WAIT_S)
            assert flushing.cancelled()
            queued = [producer.send_nowait("t", b"queued", partition=1) for _ in range(40)]
            assert await soon(producer.purge()) == 40
            errors = [await error_of(each) for each in queued]
            assert all(isinstance(each, RecordPurgedError) for each in errors)
            assert not any(each.was_sent for each in errors)
            assert not away.done()
            assert await soon(producer.purge(queued=True, in_flight=True)) == 1
            error = await error_of(away)
            assert isinstance(error, RecordPurgedError)
            assert error.was_sent
            assert await soon(producer.purge(queued=False)) == 0
            let_go(peer)
            later = producer.send_nowait("t", b"later", partition=1)
            await soon(producer.flush())
            assert (await soon(later)).offset == 0
        with pytest.raises(ProducerClosedError):
            await producer.purge()

    run(main())


def test_a_purge_that_is_cancelled_goes_on(peer: Peer) -> None:
    peer.on(INIT_PRODUCER_ID).hold()

    async def main() -> None:
        async with quick_async_producer(peer, linger_ms=0, warmup_topics=["t"]) as producer:
            await soon(producer.partitions_for("t"))
            record = producer.send_nowait("t", b"x", partition=0)
            purging = asyncio.create_task(producer.purge())
            await settle(1)
            purging.cancel()
            await asyncio.wait([purging], timeout=WAIT_S)
            assert isinstance(await error_of(record), RecordPurgedError)
            peer.wait_until_held()
            let_go(peer)
            assert (await soon(producer.send("t", b"after", partition=0))).offset == 0

    asyncio.run(main())


def test_memory_that_came_for_a_cancelled_task_goes_back(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over as the memory comes, and it is cancelled: its error, which is kept here,
    holds the frames of the call."""
    turns: list[Any] = []

    async def wait(turn: Any, _: float | None) -> None:
        turns.append(turn)
        await turn

    async def main() -> None:
        peer.on(PRODUCE).hold().always()
        async with quick_async_producer(
            peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0
        ) as producer:
            await soon(producer.warmup("t"))
            counters = producer._producer._engine.counters
            while not producer._producer.try_send("t", bytes(10_000), partition=0).done():
                pass
            monkeypatch.setattr(async_producer, "within", wait)
            task = asyncio.create_task(producer.send("t", bytes(10_000), partition=1))
            await settle()
            let_go(peer)
            peer.wait_until(lambda: counters()["waiting_threads"] == 0)
            turns[0].expire()  # as its timer does
            task.cancel()
            error = await error_of(task)
            assert isinstance(error, asyncio.CancelledError)
            assert not turns[0].is_expired
            monkeypatch.undo()
            await soon(producer.flush())
            whole = counters()["buffer_total_bytes"]
            peer.wait_until(lambda: counters()["buffer_available_bytes"] == whole)

    asyncio.run(main())
