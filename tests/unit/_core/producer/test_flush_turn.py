"""FlushTurn: a flush that is awaited."""

from __future__ import annotations

import asyncio

from fastprod._core.producer.flush_turn import FlushTurn
from support.engine.event_loops import EVERY_LOOP, Run, settle
from support.engine.sender_steps import Steps

SOON_S = 30.0


@EVERY_LOOP
def test_it_ends_with_the_last_record_that_was_sent_before(run: Run) -> None:
    async def main() -> None:
        steps = Steps(linger_ms=60_000)
        steps.send()
        turns = [FlushTurn(steps.engine) for _ in range(3)]
        waits = asyncio.gather(*turns)
        await settle()
        assert not waits.done()
        assert turns[0].undelivered_count == 1
        steps.succeed(steps.drain())  # nothing lingers while somebody flushes
        await asyncio.wait_for(waits, SOON_S)
        assert turns[0].undelivered_count == 0
        steps.send()
        assert not steps.door.ready(0)[0]  # it lingers again

    run(main())


def test_with_nothing_to_wait_for_it_is_over() -> None:
    async def main() -> None:
        turn = FlushTurn(Steps().engine)
        assert turn.done()
        await turn

    asyncio.run(main())


def test_it_waits_neither_for_later_records_nor_for_ever() -> None:
    async def main() -> None:
        steps = Steps(linger_ms=60_000)
        steps.send(partition=0)
        first = FlushTurn(steps.engine)
        request = steps.drain()
        steps.send(partition=0)
        second = FlushTurn(steps.engine)
        steps.succeed(request)
        await asyncio.wait_for(first, SOON_S)
        assert not second.done()
        second.expire()
        await asyncio.wait_for(second, SOON_S)
        assert second.undelivered_count == 1
        third = FlushTurn(steps.engine)
        assert third.cancel()
        assert third.cancelled()
        assert not steps.door.ready(0)[0]  # it lingers again

    asyncio.run(main())


def test_a_flush_in_a_loop_that_was_closed_makes_nobody_hurry() -> None:
    steps = Steps(linger_ms=60_000)
    steps.send()

    async def flush() -> FlushTurn:
        return FlushTurn(steps.engine)

    async def go_on() -> None:
        second = FlushTurn(steps.engine)
        assert second.cancel()
        assert not steps.door.ready(0)[0]  # it lingers again

    closed = asyncio.new_event_loop()
    first = closed.run_until_complete(flush())
    closed.close()
    asyncio.run(go_on())
    assert first.done()
