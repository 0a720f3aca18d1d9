"""Records of a transaction that has ended belong to no other one, whoever waits (P-I.2.1)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.aio import AsyncProducer
from fastprod.aio.bulk_thread import BulkThread
from fastprod.errors import (
    BulkError,
    IllegalStateError,
    KafkaTimeoutError,
    MetadataTimeoutError,
)
from fastprod.protocol.api_keys import METADATA
from fastprod.records import ProducerRecord
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

WAIT_S = 30.0
ROWS: Sequence[bytes] = [b"late"] * 3
Call = Callable[[AsyncProducer], Awaitable[Any]]
EVERY_CALL = pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.send("new", b"late"),
        lambda producer: producer.send_many("new", ROWS),
        lambda producer: producer.append_columns(topic="new", values=ROWS),
    ],
    ids=["send", "send_many", "append_columns"],
)


@pytest.fixture
def peer(new_peer: PeerFactory) -> Peer:
    return new_peer({"t": 1, "new": 1}, features={"transaction.version": 2})


def committed(peer: Peer, topic: str) -> list[bytes | None]:
    return [each.value for each in peer.log(topic, 0, committed=True)]


async def soon(what: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(what, WAIT_S)


async def ready(peer: Peer, **settings: Any) -> AsyncProducer:
    producer = quick_async_producer(peer, transactional_id="ledger", **settings)
    await producer.init_transactions(WAIT_S)
    await soon(producer.warmup("t"))
    return producer


@EVERY_CALL
@EVERY_LOOP
@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "left"])
def test_what_waits_for_its_topic_when_the_transaction_is_aborted(
    peer: Peer, run: Run, call: Call, *, is_cancelled: bool
) -> None:
    async def main() -> None:
        async with await ready(peer) as producer:
            await producer.begin_transaction()
            peer.on(METADATA).hold().always()
            task = asyncio.ensure_future(call(producer))
            await settle()
            peer.wait_until_held()
            if is_cancelled:
                task.cancel()
            await producer.abort_transaction(WAIT_S)
            async with producer.transaction(WAIT_S):
                peer.clear_script()
                peer.release()
                await soon(producer.warmup("new"))
                await producer.send("t", b"next")
                with pytest.raises(asyncio.CancelledError if is_cancelled else IllegalStateError):
                    await soon(task)

    run(main())
    assert committed(peer, "t") == [b"next"]
    assert not peer.values("new", 0)


@EVERY_CALL
def test_what_fails_when_its_transaction_has_ended_fails_no_other(peer: Peer, call: Call) -> None:
    async def main() -> None:
        async with await ready(peer, max_block_ms=300) as producer:
            await producer.begin_transaction()
            peer.on(METADATA).hold().always()
            task = asyncio.ensure_future(call(producer))
            await settle()
            await producer.abort_transaction(WAIT_S)
            async with producer.transaction(WAIT_S):
                with pytest.raises(IllegalStateError, match="began has ended"):
                    await soon(task)
                peer.clear_script()
                peer.release()
                await producer.send("t", b"next")

    asyncio.run(main())
    assert committed(peer, "t") == [b"next"]


def test_a_row_that_is_with_a_plug_in_when_the_transaction_is_aborted(peer: Peer) -> None:
    is_in, may_go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def serialize(value: bytes) -> bytes:
        seen.append(value)
        if value == b"late":
            is_in.set()
            may_go_on.wait(WAIT_S)
        return value

    async def main() -> None:
        async with await ready(peer, value_serializer=serialize) as producer:
            await producer.begin_transaction()
            task = asyncio.create_task(producer.send_many("t", ROWS))
            assert await asyncio.to_thread(is_in.wait, WAIT_S)
            task.cancel()
            with pytest.raises(KafkaTimeoutError):
                await producer.abort_transaction(0.05)
            may_go_on.set()
            await producer.abort_transaction(WAIT_S)
            async with producer.transaction(WAIT_S):
                await producer.send_many("t", [b"next"])

    asyncio.run(main())
    assert committed(peer, "t") == [b"next"]
    assert seen == [b"late", b"next"]


def test_the_child_of_a_fork_waits_for_no_call_of_the_parents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_go_on = threading.Event()

    def read() -> BulkFuture:
        may_go_on.wait(WAIT_S)
        bulk.go_on()
        return BulkFuture()

    bulk = BulkThread("ledger")

    async def main() -> None:
        task = asyncio.create_task(bulk.run({}, read))
        await settle()
        assert not await bulk.idle(0)
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: -1)
            bulk.call_off()
            assert await bulk.idle(WAIT_S)
        may_go_on.set()
        await soon(task)  # it was not called off
        assert await bulk.idle(WAIT_S)
        bulk.end()

    asyncio.run(main())


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "waiting"])
def test_a_bulk_that_waits_for_its_topic_holds_up_no_other(
    peer: Peer, *, is_cancelled: bool
) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            await soon(producer.warmup("t"))
            asked = len(peer.requests(METADATA))
            task = asyncio.create_task(producer.send_many("nowhere", ROWS))
            await settle()
            peer.wait_until(lambda: len(peer.requests(METADATA)) > asked)
            if is_cancelled:
                task.cancel()
            assert (await soon(producer.send_many("t", [b"x"]))).record_count == 1
            assert task.done() is is_cancelled
            task.cancel()

    asyncio.run(main())
    assert peer.values("t", 0) == [b"x"]


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.send_many("nowhere", ROWS),
        lambda producer: producer.append_columns(topic="nowhere", values=ROWS),
    ],
    ids=["send_many", "append_columns"],
)
def test_rows_whose_topic_does_not_come_are_told(peer: Peer, call: Call) -> None:
    async def main() -> None:
        async with quick_async_producer(peer, max_block_ms=1_000) as producer:
            began_s = time.monotonic()
            with pytest.raises(BulkError) as caught:
                await soon(call(producer))
            assert time.monotonic() - began_s < 1.9  # the thread does not wait once more
            failed = caught.value.sent_records.failed_rows(0)  # type: ignore[attr-defined]
            assert [each.row for each in failed] == [0, 1, 2]
            assert all(isinstance(each.error, MetadataTimeoutError) for each in failed)

    asyncio.run(main())


def test_a_topic_that_interceptors_change_is_not_asked_for(peer: Peer) -> None:
    class Elsewhere:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord("new", record.value)

    async def main() -> None:
        plug_ins = {"interceptor_classes": [Elsewhere()]}
        async with quick_async_producer(peer, max_block_ms=1_000, **plug_ins) as producer:
            assert (await soon(producer.send_many("nowhere", ROWS))).record_count == 3

    asyncio.run(main())
    assert peer.values("new", 0) == ROWS
    asked = [topic.name for each in peer.requests(METADATA) for topic in each.message.topics or ()]
    assert "nowhere" not in asked
