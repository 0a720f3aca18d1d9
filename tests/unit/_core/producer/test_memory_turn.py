"""MemoryTurn: a place in the pool's line that is awaited."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fastprod import KafkaProducer
from fastprod._core.producer.memory_turn import MemoryTurn
from fastprod.errors import ProducerClosedError, UndeliveredError
from fastprod.protocol.api_keys import PRODUCE
from support.engine.event_loops import settle
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.scripted_peer import Peer

RECORD_BYTES = 10_000


@contextmanager
def full_producer(peer: Peer) -> Iterator[KafkaProducer]:
    """Its buffer is full of records that the peer does not answer until `let_go`."""
    peer.on(PRODUCE).hold().always()
    producer = quick_producer(peer, buffer_memory=200_000, batch_size=16_384, linger_ms=0)
    try:
        producer.warmup("t", timeout=WAIT_S)
        while not producer.try_send("t", bytes(RECORD_BYTES), partition=0).done():
            pass
        yield producer
    finally:
        let_go(peer)
        producer.close(WAIT_S)


def let_go(peer: Peer) -> None:
    peer.clear_script()
    peer.release()


def turn_for(producer: KafkaProducer) -> MemoryTurn:
    found = producer._begin_send("t", bytes(RECORD_BYTES), None, None, 1)
    assert isinstance(found, MemoryTurn)
    return found


def waiting(producer: KafkaProducer) -> int:
    return int(producer._engine.counters()["waiting_threads"])


def free_bytes(producer: KafkaProducer) -> int:
    return int(producer._engine.counters()["buffer_available_bytes"])


def total_bytes(producer: KafkaProducer) -> int:
    return int(producer._engine.counters()["buffer_total_bytes"])


def test_memory_comes_in_the_order_of_the_line(peer: Peer) -> None:
    async def main() -> None:
        turns = [turn_for(producer) for _ in range(6)]
        order: list[int] = []

        async def wait(number: int) -> None:
            await turns[number]
            order.append(number)
            found = producer._continue_send(
                "t", b"%d" % number, None, None, None, None, None, turns[number]
            )
            assert not isinstance(found, MemoryTurn)

        tasks = [asyncio.create_task(wait(number)) for number in (3, 0, 5, 1, 4, 2)]
        await settle()
        assert waiting(producer) == 6
        assert order == []
        let_go(peer)
        await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
        assert order == sorted(order)

    with full_producer(peer) as producer:
        asyncio.run(main())


@pytest.mark.parametrize("how", ["expired", "cancelled", "dropped"])
def test_who_leaves_the_line_gives_back_what_came_for_it(peer: Peer, how: str) -> None:
    async def main() -> None:
        turns = [turn_for(producer), turn_for(producer)]
        task = asyncio.create_task(asyncio.wait_for(turns[1], WAIT_S))
        await settle()
        if how == "expired":
            turns[0].expire()
            assert turns[0].is_expired
            assert turns[0].done()
        elif how == "cancelled":
            assert turns[0].cancel()
        else:
            turns.pop(0)
        assert waiting(producer) == (2 if how == "dropped" else 1)
        let_go(peer)
        await task
        turns.clear()

    with full_producer(peer) as producer:
        asyncio.run(main())
        producer.flush(WAIT_S)
        gc.collect()
        peer.wait_until(lambda: free_bytes(producer) == total_bytes(producer))
        assert waiting(producer) == 0


def test_leaving_a_long_line_costs_the_same_at_either_end(peer: Peer) -> None:
    """A group of tasks that is cancelled leaves in any order."""
    seconds: list[float] = []

    async def main() -> None:
        for step in (1, -1):
            turns = [turn_for(producer) for _ in range(20_000)]
            began_s = time.thread_time()
            for turn in turns[::step]:
                turn.cancel()
            seconds.append(time.thread_time() - began_s)

    with full_producer(peer) as producer:
        asyncio.run(main())
        assert waiting(producer) == 0
    assert seconds[1] < 5 * seconds[0] + 0.05


def test_a_producer_that_closes_refuses_who_awaits_memory(peer: Peer) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(turn_for(producer))
        await settle()
        with pytest.raises(UndeliveredError):
            producer.close(0)
        with pytest.raises(ProducerClosedError, match="allocating memory"):
            await asyncio.wait_for(task, WAIT_S)

    with full_producer(peer) as producer:
        asyncio.run(main())


def test_memory_that_nobody_took_goes_back_with_a_cycle(peer: Peer) -> None:
    async def main() -> None:
        cycle: list[object] = [turn_for(producer), turn_for(producer)]
        cycle.append(cycle)
        task = asyncio.create_task(asyncio.wait_for(turn_for(producer), WAIT_S))
        await settle()
        let_go(peer)
        await task
        del cycle
        gc.collect()

    with full_producer(peer) as producer:
        asyncio.run(main())
        producer.flush(WAIT_S)
        gc.collect()
        peer.wait_until(lambda: free_bytes(producer) == total_bytes(producer))


def test_who_waits_in_a_loop_that_was_closed_stands_in_line_no_more(peer: Peer) -> None:
    """Nobody would use the memory that it is given, and those behind it would wait for ever."""
    closed = asyncio.new_event_loop()

    async def stand_in_line() -> list[asyncio.Task[None]]:
        async def wait(turn: MemoryTurn) -> None:
            await turn

        tasks = [asyncio.create_task(wait(turn_for(producer))) for _ in range(30)]
        await settle()
        return tasks

    async def go_on() -> None:
        turn = turn_for(producer)
        assert waiting(producer) == 1
        let_go(peer)
        await asyncio.wait_for(turn, WAIT_S)
        turn.give_back()

    with full_producer(peer) as producer:
        left = closed.run_until_complete(stand_in_line())
        closed.close()
        assert waiting(producer) == len(left)
        asyncio.run(go_on())
        producer.flush(WAIT_S)
        peer.wait_until(lambda: free_bytes(producer) == total_bytes(producer))
        assert not any(task.done() for task in left)
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
