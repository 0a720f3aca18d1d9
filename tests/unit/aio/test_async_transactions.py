"""The calls of transactions in an event loop, as far as they need no broker (P-A.8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from fastprod.aio import AsyncProducer
from fastprod.errors import IllegalStateError, KafkaTimeoutError, ProducerClosedError
from fastprod.protocol.api_keys import END_TXN
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.peer.fixtures import PeerFactory

NOWHERE = "127.0.0.1:1"
WAIT_S = 30.0
CALLS: dict[str, Callable[[AsyncProducer], Awaitable[object]]] = {
    "init_transactions": lambda producer: producer.init_transactions(0),
    "begin_transaction": AsyncProducer.begin_transaction,
    "send_offsets_to_transaction": lambda producer: producer.send_offsets_to_transaction({}, "g"),
    "commit_transaction": lambda producer: producer.commit_transaction(0),
    "abort_transaction": lambda producer: producer.abort_transaction(0),
    "transaction": lambda producer: producer.transaction().__aenter__(),
}
EVERY_CALL = pytest.mark.parametrize("call", CALLS)


@EVERY_CALL
def test_a_producer_without_a_transactional_id_has_no_transactions(call: str) -> None:
    """P-A.8.1"""

    async def main() -> None:
        async with quick_async_producer(NOWHERE) as producer:
            with pytest.raises(IllegalStateError, match="transactional_id"):
                await CALLS[call](producer)

    asyncio.run(main())


@EVERY_CALL
def test_a_closed_producer_has_no_transactions(call: str) -> None:
    """P-A.9.8"""

    async def main() -> None:
        producer = quick_async_producer(NOWHERE, transactional_id="ledger")
        await producer.close()
        with pytest.raises(ProducerClosedError):
            await CALLS[call](producer)

    asyncio.run(main())


@EVERY_LOOP
def test_a_wait_is_bounded_and_may_be_repeated(run: Run) -> None:
    """P-A.8.7, P-L.26"""

    async def main() -> None:
        producer = quick_async_producer(NOWHERE, transactional_id="ledger")
        for _ in range(2):
            with pytest.raises(KafkaTimeoutError, match=r"init_transactions.*within 20 ms"):
                await producer.init_transactions(0.02)
        await producer.close(0)

    run(main())


def test_a_wait_ends_with_the_producer() -> None:
    async def main() -> None:
        producer = quick_async_producer(NOWHERE, transactional_id="ledger")
        task = asyncio.create_task(producer.init_transactions())
        await settle()
        await asyncio.wait_for(producer.close(0), WAIT_S)
        with pytest.raises(ProducerClosedError):
            await asyncio.wait_for(task, WAIT_S)

    asyncio.run(main())


def test_a_task_that_is_cancelled_aborts_its_transaction(new_peer: PeerFactory) -> None:
    """P-A.8.6: or readers of committed records would wait for its time-out."""
    peer = new_peer({"t": 1}, features={"transaction.version": 2})

    async def main() -> None:
        async with quick_async_producer(peer, transactional_id="ledger") as producer:
            await producer.init_transactions(WAIT_S)
            is_sent = asyncio.Event()

            async def wait_for_ever() -> None:
                async with producer.transaction(WAIT_S):
                    await producer.send("t", b"cancelled")
                    is_sent.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(wait_for_ever())
            await asyncio.wait_for(is_sent.wait(), WAIT_S)
            task.cancel()
            await asyncio.wait([task], timeout=WAIT_S)
            assert task.cancelled()
            assert len(peer.requests(END_TXN)) == 1
            async with producer.transaction(WAIT_S):
                await producer.send("t", b"next")

    asyncio.run(main())
    assert [each.message.committed for each in peer.requests(END_TXN)] == [False, True]


def test_an_abort_that_is_cancelled_comes_before_the_next_transaction(
    new_peer: PeerFactory,
) -> None:
    """Frameworks such as anyio cancel whatever a task that is to end awaits."""
    peer = new_peer({"t": 1}, features={"transaction.version": 2})

    async def main() -> None:
        async with quick_async_producer(peer, transactional_id="ledger") as producer:
            await producer.init_transactions(WAIT_S)
            peer.on(END_TXN).hold()

            has_sent = asyncio.Event()

            async def wait_for_ever() -> None:
                async with producer.transaction(WAIT_S):
                    await producer.send("t", b"cancelled")
                    has_sent.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(wait_for_ever())
            await asyncio.wait_for(has_sent.wait(), WAIT_S)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0.05)
            await asyncio.to_thread(peer.wait_until_held)
            peer.release()
            async with producer.transaction(WAIT_S):
                await producer.send("t", b"next")

    asyncio.run(main())
    assert [each.value for each in peer.log("t", 0, committed=True)] == [b"next"]
    assert [each.message.committed for each in peer.requests(END_TXN)] == [False, True]


@EVERY_LOOP
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_an_end_that_is_cancelled_while_interceptors_run_is_told_to_the_same_call_again(
    new_peer: PeerFactory, run: Run, end: str
) -> None:
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    is_in, may_go_on = threading.Event(), threading.Event()

    class Slow:
        def on_acknowledgement(self, metadata: object, error: object) -> None:
            is_in.set()
            may_go_on.wait(WAIT_S)

    async def main() -> None:
        plug_ins = {"interceptor_classes": [Slow()]}
        async with quick_async_producer(peer, transactional_id="ledger", **plug_ins) as producer:
            await producer.init_transactions(WAIT_S)
            await producer.warmup("t")
            await producer.begin_transaction()
            producer.send_nowait("t", b"x")
            task = asyncio.create_task(getattr(producer, end)(WAIT_S))
            assert await asyncio.to_thread(is_in.wait, WAIT_S)
            manager = producer._producer._transactions()
            while manager.pending_result is not None and not manager.pending_result.is_completed:
                await asyncio.sleep(0.01)
            await settle()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            may_go_on.set()
            await getattr(producer, end)(WAIT_S)
            async with producer.transaction(WAIT_S):
                await producer.send("t", b"next")

    run(main())
    values = [each.value for each in peer.log("t", 0, committed=True)]
    assert values == ([b"x", b"next"] if end == "commit_transaction" else [b"next"])
