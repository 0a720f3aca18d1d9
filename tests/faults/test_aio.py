"""Event loops and misfortunes: loops that end, time-outs, Ctrl-C, forks; nothing is left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fastprod import RecordMetadata
from fastprod.aio import AsyncProducer
from fastprod.errors import DeliveryTimeoutError
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer


def let_go(peer: Peer) -> None:
    peer.clear_script()
    peer.release()


@EVERY_LOOP
def test_a_loop_ends_with_records_pending_and_they_are_sent(peer: Peer, run: Run) -> None:
    """`asyncio.run` cancels the tasks; what had left arrives, and the next loop goes on."""
    producer = quick_async_producer(peer)

    async def leave() -> None:
        await producer.warmup("t")
        peer.on(PRODUCE).hold().always()
        tasks = [asyncio.create_task(producer.send("t", b"left", partition=0)) for _ in range(3)]
        await settle()
        peer.wait_until_held()
        assert not any(task.done() for task in tasks)

    async def go_on() -> int:
        let_go(peer)
        found = await asyncio.wait_for(producer.send("t", b"next", partition=0), WAIT_S)
        return found.offset

    run(leave())
    assert run(go_on()) >= 1
    run(producer.close())
    assert b"left" in peer.values("t", 0)


def test_ctrl_c_ends_the_run_while_sends_wait_for_everything(peer: Peer) -> None:
    """For metadata, for memory, and for the broker: each task is cancelled, and nothing hangs."""
    producer = quick_async_producer(peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0)
    interrupted: list[str] = []

    async def send(topic: str) -> None:
        try:
            await producer.send(topic, bytes(10_000))
        except asyncio.CancelledError:
            interrupted.append(topic)
            raise

    async def main() -> None:
        await producer.warmup("t")
        peer.on(PRODUCE).hold().always()
        peer.on(METADATA).hold().always()
        tasks = [asyncio.create_task(send(topic)) for topic in ("t",) * 40 + ("other",)]
        await settle(20)
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        await asyncio.wait(tasks)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert len(interrupted) == 41
    assert producer._producer._engine.counters()["waiting_threads"] == 0
    let_go(peer)
    asyncio.run(producer.close())


@EVERY_LOOP
def test_a_time_out_of_a_wait_loses_nobody_elses_record(peer: Peer, run: Run) -> None:
    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            await producer.warmup("t")
            peer.on(PRODUCE).hold().always()
            first = asyncio.create_task(producer.send("t", b"first", partition=0))
            await settle()
            peer.wait_until_held()  # it has left, and cannot be taken back
            first.cancel()
            others = [
                asyncio.create_task(producer.send("t", b"other", partition=0)) for _ in range(5)
            ]
            await asyncio.wait([first], timeout=WAIT_S)
            assert first.cancelled()
            let_go(peer)
            found = await asyncio.wait_for(asyncio.gather(*others), WAIT_S)
            assert [each.offset for each in found] == [1, 2, 3, 4, 5]
        assert peer.values("t", 0) == [b"first"] + [b"other"] * 5

    run(main())


def test_a_record_that_expires_raises_in_the_task(peer: Peer) -> None:
    async def main() -> None:
        async with quick_async_producer(
            peer, delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0
        ) as producer:
            await producer.warmup("t")
            peer.on(PRODUCE).hold().always()
            with pytest.raises(DeliveryTimeoutError):
                await asyncio.wait_for(producer.send("t", b"x"), WAIT_S)
            let_go(peer)

    asyncio.run(main())


def test_loops_in_threads_have_a_producer_each_or_share_one(peer: Peer) -> None:
    shared = quick_async_producer(peer)
    failures: list[BaseException] = []

    async def main(own: AsyncProducer) -> None:
        for _ in range(20):
            await asyncio.gather(*(each.send("t", b"x") for each in (own, shared) * 3))
        await own.close()

    def run() -> None:
        try:
            asyncio.run(asyncio.wait_for(main(quick_async_producer(peer)), WAIT_S))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_S)
    asyncio.run(shared.close())
    assert failures == []
    assert sum(len(peer.values("t", partition)) for partition in range(3)) == 4 * 20 * 6


def test_the_child_of_a_fork_has_a_producer_of_its_own(peer: Peer) -> None:
    producer = quick_async_producer(peer)
    asyncio.run(asyncio.wait_for(producer.send("t", b"parent", partition=0), WAIT_S))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(asyncio.wait_for(producer.send("t", b"child", partition=1), WAIT_S))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(asyncio.wait_for(producer.send("t", b"parent", partition=0), WAIT_S))
    asyncio.run(producer.close())
    assert peer.values("t", 0) == [b"parent"] * 2
    assert peer.values("t", 1) == [b"child"]


def test_the_child_of_a_fork_does_not_wait_for_a_close_of_the_parents(peer: Peer) -> None:
    producer = quick_async_producer(peer)

    async def begin_to_close() -> asyncio.Task[None]:
        await asyncio.wait_for(producer.send("t", b"first", partition=0), WAIT_S)
        peer.on(PRODUCE).hold().once()
        producer.send_nowait("t", b"held", partition=0)
        closing = asyncio.create_task(producer.close())
        while not producer.closed:
            await settle()
        return closing

    loop = asyncio.new_event_loop()
    closing = loop.run_until_complete(begin_to_close())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(asyncio.wait_for(producer.close(), WAIT_S))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not closing.done()
    peer.wait_until_held()
    peer.release()
    loop.run_until_complete(asyncio.wait_for(closing, WAIT_S))
    loop.close()


def test_a_future_of_the_other_producer_is_awaited_too(peer: Peer) -> None:
    async def main() -> None:
        future = producer.send("t", b"x", partition=0)
        assert (await asyncio.wait_for(future, WAIT_S)).offset == 0

    with quick_producer(peer) as producer:
        producer.warmup("t", timeout=WAIT_S)
        asyncio.run(main())


class NestingLoop(asyncio.SelectorEventLoop):
    """As nest_asyncio makes it, which lets a notebook's loop run from within."""

    _nest_patched = True

    def __init__(self) -> None:
        super().__init__()
        # No cycle: whoever drops the loop last frees it, with its descriptor.
        failures: list[Any] = []
        self._failures = failures
        self.set_exception_handler(lambda _, context: failures.append(context))

    def run_within(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        outer = asyncio.current_task(self)
        assert outer is not None
        asyncio.tasks._leave_task(self, outer)
        try:
            task = self.create_task(asyncio.wait_for(coroutine, WAIT_S))
            while not task.done():
                self._run_once()  # type: ignore[attr-defined]
                assert self._failures == []
            return task.result()
        finally:
            asyncio.tasks._enter_task(self, outer)


def test_a_task_that_was_woken_runs_the_loop_within(peer: Peer) -> None:
    """There others are woken too: those of the same batch, and those of later ones."""
    loop = NestingLoop()

    async def send(producer: AsyncProducer) -> RecordMetadata:
        return await producer.send("t", b"within", partition=0)

    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            await producer.warmup("t")
            future, *others = [producer.send_nowait("t", b"x", partition=0) for _ in range(3)]
            gathered = asyncio.gather(*others)
            for offset in range(3, 6):
                await future
                assert loop.run_within(send(producer)).offset == offset
                future = producer.send_nowait("t", b"x", partition=1)
            assert [each.offset for each in await gathered] == [1, 2]
            await asyncio.wait_for(future, WAIT_S)

    loop.run_until_complete(asyncio.wait_for(main(), WAIT_S))
    loop.close()


class FullLoop(asyncio.SelectorEventLoop):
    """The process has no descriptor left for what it is to watch."""

    def add_reader(self, *_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


CALLS: dict[str, Callable[[AsyncProducer], Any]] = {
    "send": lambda producer: producer.send("t", b"x", partition=0),
    "deadline": lambda producer: producer.send("t", b"x", partition=0, deadline=WAIT_S),
    "send_many": lambda producer: producer.send_many("t", [b"x"], partitions=[0]),
    "send_nowait": lambda producer: producer.send_nowait("t", b"x", partition=0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("serializer", [None, bytes])
def test_what_no_loop_could_await_is_not_sent(
    peer: Peer, call: Callable[[AsyncProducer], Any], serializer: type[bytes] | None
) -> None:
    """Outside of every loop, as in a thread of a web framework's, or in one of another kind."""
    producer = quick_async_producer(peer, value_serializer=serializer)
    asyncio.run(producer.warmup("t"))

    async def in_loop() -> None:
        await call(producer)

    def in_no_loop() -> None:
        in_loop().send(None)

    with pytest.raises(RuntimeError, match="no running event loop"):
        in_no_loop()
    with (
        asyncio.Runner(loop_factory=FullLoop) as runner,
        pytest.raises(OSError, match="open files"),
    ):
        runner.run(in_loop())
    asyncio.run(producer.close())
    assert peer.values("t", 0) == []


def test_a_loop_that_is_blocked_finds_everything_done_when_it_goes_on(peer: Peer) -> None:
    """Other threads' records go on meanwhile."""

    async def main() -> None:
        async with quick_async_producer(peer) as producer:
            await producer.warmup("t")
            tasks = [asyncio.create_task(producer.send("t", b"x")) for _ in range(100)]
            await settle()
            time.sleep(0.05)
            await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)

    asyncio.run(main())
