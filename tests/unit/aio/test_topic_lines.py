"""TopicLines: who comes first goes on first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastprod.aio.topic_lines import TopicLines
from fastprod.protocol.api_keys import METADATA
from support.engine.event_loops import EVERY_LOOP, Run, quick_async_producer, settle
from support.peer.scripted_peer import Peer

WAIT_S = 30.0
COUNT = 40


@EVERY_LOOP
def test_tasks_go_on_in_the_order_in_which_they_came(run: Run) -> None:
    """Also those who come when what all wait for is there, and behind those that are cancelled."""

    async def main() -> None:
        lines = TopicLines()
        is_known = asyncio.Event()
        seen: list[int] = []

        async def wait() -> None:
            await is_known.wait()

        async def stand(n: int) -> None:
            await lines.behind_others("t", None if is_known.is_set() else wait())
            seen.append(n)

        tasks = [asyncio.create_task(stand(n)) for n in range(5)]
        await settle()
        assert lines.has("t")
        assert not lines.has("u")
        assert not lines.has(7)
        tasks[0].cancel()
        tasks[3].cancel()
        is_known.set()
        tasks += [asyncio.create_task(stand(n)) for n in range(5, 9)]
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
        assert seen == [1, 2, 4, 5, 6, 7, 8]
        assert not lines.lines

    run(main())


def test_an_error_ends_the_wait_of_one() -> None:
    async def main() -> None:
        lines = TopicLines()

        async def fail() -> None:
            raise ValueError

        with pytest.raises(ValueError):
            await lines.behind_others("t", fail())
        await asyncio.wait_for(lines.behind_others("t"), WAIT_S)

    asyncio.run(main())


@EVERY_LOOP
@pytest.mark.parametrize(
    "settings", [{}, {"value_serializer": bytes}], ids=["plain", "with a serializer"]
)
def test_records_for_a_new_topic_keep_the_order_of_their_tasks(
    peer: Peer, run: Run, settings: dict[str, Any]
) -> None:
    async def main() -> None:
        async with quick_async_producer(peer, **settings) as producer:

            def sending(numbers: range) -> list[asyncio.Task[Any]]:
                sends = [producer.send("t", b"%d" % n, partition=0) for n in numbers]
                return [asyncio.create_task(each) for each in sends]

            peer.on(METADATA).hold().always()
            tasks = sending(range(COUNT))
            await settle()
            assert not peer.values("t", 0)
            peer.clear_script()
            peer.release()
            peer.wait_until(lambda: producer._producer._knows("t", 0))  # the loop is busy
            tasks += sending(range(COUNT, 2 * COUNT))
            await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)

    run(main())
    assert [int(value or b"") for value in peer.values("t", 0)] == [*range(2 * COUNT)]
