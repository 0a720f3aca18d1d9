"""Columns sent from an event loop: what is delivered, what fails, who waits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from fastprod.aio import AsyncProducer
from fastprod.aio.bulk_thread import BulkThread
from fastprod.errors import BulkError, ProducerClosedError
from fastprod.protocol.api_keys import PRODUCE
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.engine.quick_producer import WAIT_S, quick_producer
from support.engine.thread_refusal import no_thread
from support.peer.scripted_peer import Peer

MESSAGE_TOO_LARGE = 10


def bulk_threads() -> int:
    return sum(thread.name.startswith("kafka-producer-bulk") for thread in threading.enumerate())


@EVERY_LOOP
def test_all_records_of_a_bulk_are_awaited(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(peer, batch_size=16_384) as producer:
            calls = (
                producer.send_many("t", [b"%05d" % n for n in range(10_000)]),
                producer.append_columns(topic="t", values=[b"a", b"b"], partitions=[2, 2]),
            )
            found = await asyncio.wait_for(asyncio.gather(*calls), WAIT_S)
            assert [each.record_count for each in found] == [10_000, 2]
            assert bulk_threads() == 1
        peer.wait_until(lambda: bulk_threads() == 0)
        with pytest.raises(ProducerClosedError):
            await producer.send_many("t", [b"x"])

    run(main())
    assert {b"a", b"b"} <= set(peer.values("t", 2))


def test_memory_that_is_short_does_not_hold_up_the_loop(peer: Peer) -> None:
    async def main() -> None:
        async with quick_async_producer(
            peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0
        ) as producer:
            await producer.warmup("t")
            peer.on(PRODUCE).hold().always()
            task = asyncio.create_task(producer.send_many("t", [bytes(1_000)] * 1_000))
            counters = producer._producer._engine.counters
            while counters()["waiting_threads"] == 0:
                await asyncio.sleep(0.001)
            assert not task.done()
            peer.clear_script()
            peer.release()
            assert (await asyncio.wait_for(task, WAIT_S)).record_count == 1_000

    asyncio.run(main())


@pytest.mark.parametrize(
    ("call", "settings"),
    [
        (lambda producer, rows: producer.send_many("t", rows), {}),
        (lambda producer, rows: producer.send_many("t", rows, headers=[None] * len(rows)), {}),
        (lambda producer, rows: producer.append_columns(topic="t", values=np.array(rows)), {}),
        (lambda producer, rows: producer.send_many("t", rows), {"value_serializer": bytes}),
    ],
    ids=["plain", "rows", "columns", "plug-ins"],
)
@pytest.mark.parametrize("delay_s", [None, 0.02], ids=["none", "steadily"])
def test_a_bulk_that_is_cancelled_while_memory_is_short_queues_no_more(
    peer: Peer,
    call: Callable[[AsyncProducer, list[bytes]], Awaitable[Any]],
    settings: dict[str, Any],
    delay_s: float | None,
) -> None:
    """Also while memory comes steadily, and each wait for it is short."""

    async def main() -> None:
        async with quick_async_producer(
            peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0, **settings
        ) as producer:
            await producer.warmup("t")
            rule = peer.on(PRODUCE)
            (rule.hold() if delay_s is None else rule.delay(delay_s)).always()
            task = asyncio.ensure_future(call(producer, [b"x" * 1_000] * 10_000))
            counters = producer._producer._engine.counters
            while counters()["waiting_threads"] == 0:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await producer._bulk_thread.idle(WAIT_S)
            peer.clear_script()
            peer.release()
            await asyncio.wait_for(producer.send_many("t", [b"next"]), WAIT_S)

    asyncio.run(main())
    arrived = [value for partition in range(3) for value in peer.values("t", partition)]
    assert b"next" in arrived
    assert len(arrived) < 5_000


def test_plug_ins_see_the_context_variables_of_their_task(peer: Peer) -> None:
    """As those of `send` do: tracing, for one, keeps there what a record belongs to."""
    request = contextvars.ContextVar("request", default="none")
    seen: list[tuple[str, str]] = []

    def serialize(value: str) -> bytes:
        seen.append((value, request.get()))
        return value.encode()

    async def send(name: str) -> None:
        request.set(name)
        await producer.send("t", f"one of {name}")
        await producer.send_many("t", [f"many of {name}"] * 2)

    async def main() -> None:
        async with producer:
            await asyncio.wait_for(asyncio.gather(send("a"), send("b")), WAIT_S)

    producer = quick_async_producer(peer, value_serializer=serialize)
    asyncio.run(main())
    assert len(seen) == 6
    assert all(value.endswith(f" of {name}") for value, name in seen)


def test_what_fails_is_told_and_the_rest_arrives(peer: Peer) -> None:
    async def main() -> None:
        async with quick_async_producer(peer, max_request_size=50_000) as producer:
            with pytest.raises(BulkError) as caught:
                await producer.send_many("t", [b"x", bytes(60_000), b"y"], partitions=[0, 0, 0])
            (failed,) = caught.value.sent_records.failed_rows(0)  # type: ignore[attr-defined]
            assert failed.row == 1
        assert peer.values("t", 0) == [b"x", b"y"]

    asyncio.run(main())


@pytest.mark.parametrize("used", [1, 3])
def test_a_bulk_of_the_other_producer_is_awaited_too_and_splits_are_waited_for(
    peer: Peer, used: int
) -> None:
    async def main() -> None:
        partitions = [row * used // 60 for row in range(60)]
        bulk = producer.send_many("t", [bytes(1_000)] * 60, partitions=partitions)
        waits = [asyncio.create_task(wait(bulk)) for _ in range(3)]
        await settle()
        waits[0].cancel()
        found = await asyncio.wait_for(asyncio.gather(*waits[1:]), WAIT_S)
        assert found == [60, 60]

    async def wait(bulk: object) -> int:
        return int((await bulk).record_count)  # type: ignore[misc]

    peer.on(PRODUCE).error(MESSAGE_TOO_LARGE)
    with quick_producer(peer, batch_size=100_000) as producer:
        producer.warmup("t", timeout=WAIT_S)
        asyncio.run(main())
    assert sum(len(peer.values("t", partition)) for partition in range(used)) == 60


def test_what_was_refused_for_want_of_a_thread_is_never_sent(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller has an error, and sends it again: it must not arrive twice."""

    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            with no_thread(monkeypatch, "bulk"), pytest.raises(RuntimeError):
                await producer.send_many("t", [b"refused"], partitions=[0])
            await asyncio.wait_for(producer.send_many("t", [b"x"], partitions=[0]), WAIT_S)

    asyncio.run(main())
    assert peer.values("t", 0) == [b"x"]


def test_a_call_that_begins_as_another_thread_ends_the_line_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody would come to what is behind the end."""
    bulk_thread = BulkThread("me")
    started, other = bulk_thread._started, threading.Thread(target=bulk_thread.end)

    def start_and_end() -> Any:
        line = started()
        other.start()
        other.join(0.2)
        return line

    async def main() -> None:
        made: Any = bulk_thread.run({}, lambda: "made")  # type: ignore[arg-type, return-value]
        assert await asyncio.wait_for(made, WAIT_S) == "made"

    monkeypatch.setattr(bulk_thread, "_started", start_and_end)
    asyncio.run(main())
    other.join()
