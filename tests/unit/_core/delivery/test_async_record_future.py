"""AsyncRecordFuture: how one record's outcome is awaited."""

from __future__ import annotations

import asyncio

import pytest

from fastprod._core.delivery.async_record_future import AsyncRecordFuture, await_future
from fastprod._core.delivery.future import RecordFuture
from fastprod.errors import RecordCancelledError, RecordDeadlineError
from fastprod.records import RecordMetadata
from support.engine.event_loops import EVERY_LOOP, Run, settle
from support.engine.sender_steps import Steps

MESSAGE_TOO_LARGE = 10
SOON_S = 30.0


def test_send_nowait_alone_makes_them() -> None:
    with pytest.raises(TypeError, match=r"comes from AsyncProducer.send_nowait"):
        AsyncRecordFuture()


@EVERY_LOOP
def test_a_record_future_is_awaited_in_any_loop(run: Run) -> None:
    async def main() -> None:
        steps = Steps()
        futures = [steps.send(), steps.send()]

        async def wait() -> list[int]:
            return [(await each).offset for each in futures]

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await settle()
        steps.answer(steps.drain(), base_offset=20)
        assert await asyncio.wait_for(asyncio.gather(*tasks), SOON_S) == [[20, 21]] * 3

    run(main())


def test_it_tells_what_it_is() -> None:
    async def main() -> None:
        steps = Steps()
        future = await_future(steps.send())
        assert not future.record.done()
        assert "pending" in repr(future)
        steps.answer(steps.drain(), base_offset=5)
        assert "offset=5" in repr(future)

    asyncio.run(main())


def test_who_awaits_a_batch_that_is_split_hears_of_its_own_part() -> None:
    async def main() -> None:
        steps = Steps(batch_size=16_384)
        futures = [steps.send(bytes(1_000)) for _ in range(10)]
        waits = asyncio.gather(*futures)
        await settle()
        steps.refuse(steps.drain(), MESSAGE_TOO_LARGE)  # it is cut up
        parts, offset = 0, 0
        while offset < len(futures):
            await settle()
            assert not waits.done()
            request = steps.drain()
            count = len(steps.values(request))
            steps.succeed(request, base_offset=offset)
            parts, offset = parts + 1, offset + count
        assert parts > 1
        assert [each.offset for each in await asyncio.wait_for(waits, SOON_S)] == list(range(10))

    asyncio.run(main())


async def outcome_of(record: RecordFuture) -> RecordMetadata:
    return await record


def test_a_record_that_another_call_takes_back_wakes_who_awaits_it() -> None:
    """Whatever becomes of the rest of its batch."""

    async def main() -> None:
        steps = Steps(linger_ms=60_000)
        record, other = steps.send(), steps.send()
        task = asyncio.create_task(outcome_of(record))
        await settle()
        assert record.cancel()
        done, _ = await asyncio.wait([task], timeout=SOON_S)
        assert done
        assert isinstance(task.exception(), RecordCancelledError)
        assert not other.done()

    asyncio.run(main())


def test_a_record_that_misses_its_deadline_under_way_wakes_who_awaits_it() -> None:
    """And who awaits another one of its batch goes on waiting for that."""

    async def main() -> None:
        steps = Steps()
        late, other = steps.send(), steps.send()
        tasks = [asyncio.create_task(outcome_of(each)) for each in (late, other)]
        await settle()
        request = steps.drain()
        assert isinstance(late._miss_deadline(1), RecordDeadlineError)
        done, _ = await asyncio.wait(tasks, timeout=SOON_S, return_when=asyncio.FIRST_COMPLETED)
        assert done == {tasks[0]}
        assert isinstance(tasks[0].exception(), RecordDeadlineError)
        steps.answer(request, base_offset=7)
        assert (await asyncio.wait_for(tasks[1], SOON_S)).offset == 8

    asyncio.run(main())
