"""LoopFuture: asyncio's protocol, as asyncio's own functions use it."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from fastprod._core.delivery.async_record_future import AsyncRecordFuture, await_future
from fastprod.errors import KafkaError
from support.engine.event_loops import EVERY_LOOP, Run, settle
from support.engine.sender_steps import Steps

MESSAGE_TOO_LARGE = 10
SOON_S = 30.0


def answered(steps: Steps, **answer: Any) -> None:
    steps.answer(steps.drain(), **({"base_offset": 0} | answer))


@EVERY_LOOP
def test_asyncio_takes_it_as_one_of_its_own(run: Run) -> None:
    async def main() -> None:
        steps = Steps()
        futures = [await_future(steps.send()) for _ in range(6)]
        assert asyncio.isfuture(futures[0])
        assert futures[0].get_loop() is asyncio.get_running_loop()
        waits = [
            asyncio.create_task(asyncio.wait_for(futures[0], SOON_S)),
            asyncio.ensure_future(asyncio.gather(futures[1], futures[2])),
            asyncio.create_task(asyncio.wait(futures[3:5], timeout=SOON_S)),
            asyncio.ensure_future(asyncio.shield(futures[5])),
        ]
        await settle()
        answered(steps)
        one, two, (done, pending), shielded = await asyncio.wait_for(asyncio.gather(*waits), SOON_S)
        assert (one.offset, [each.offset for each in two]) == (0, [1, 2])
        assert (done, pending) == (set(futures[3:5]), set())
        assert shielded.offset == 5
        assert [each.done() for each in futures] == [True] * 6

    run(main())


@EVERY_LOOP
def test_what_is_over_is_awaited_without_a_turn_of_the_loop(run: Run) -> None:
    async def main() -> None:
        steps = Steps()
        future = await_future(steps.send())
        answered(steps, base_offset=4)
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        assert (await future).offset == 4
        assert (await future).offset == 4
        assert turns == []

    run(main())


def test_the_error_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        steps = Steps()
        future = await_future(steps.send())
        wait: object = asyncio.ensure_future(future)
        assert wait is future
        task = asyncio.create_task(asyncio.wait_for(future, SOON_S))
        await settle()
        answered(steps, error_code=MESSAGE_TOO_LARGE)
        with pytest.raises(KafkaError) as caught:
            await task
        assert caught.value.code == MESSAGE_TOO_LARGE
        assert isinstance(future.exception(), KafkaError)
        with pytest.raises(KafkaError):
            future.result()

    asyncio.run(main())


def test_what_is_pending_has_no_outcome() -> None:
    async def main() -> None:
        future = await_future(Steps().send())
        assert not future.done()
        for ask in (future.result, future.exception):
            with pytest.raises(asyncio.InvalidStateError):
                ask()

    asyncio.run(main())


def test_callbacks_run_in_the_loop_in_their_context_and_can_be_removed() -> None:
    async def main() -> None:
        steps = Steps()
        name = contextvars.ContextVar("name", default="none")
        future = await_future(steps.send())
        calls: list[tuple[str, str]] = []

        def first(each: AsyncRecordFuture) -> None:
            calls.append(("first", name.get()))

        def second(each: AsyncRecordFuture) -> None:
            calls.append(("second", name.get()))

        def never(each: AsyncRecordFuture) -> None:
            calls.append(("never", ""))

        context = contextvars.copy_context()
        context.run(name.set, "given")
        future.add_done_callback(never)
        future.add_done_callback(first, context=context)
        future.add_done_callback(never)
        name.set("copied")
        future.add_done_callback(second)
        assert future.remove_done_callback(never) == 2
        assert future.remove_done_callback(never) == 0
        answered(steps)
        await future
        await settle()
        late: list[str] = []
        future.add_done_callback(lambda each: late.append(name.get()))
        assert late == []
        await settle()
        assert (calls, late) == ([("first", "given"), ("second", "copied")], ["copied"])

    asyncio.run(main())


def test_a_callback_that_raises_is_told_to_the_loop() -> None:
    async def main() -> None:
        steps = Steps()
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        future = await_future(steps.send())
        calls: list[int] = []
        future.add_done_callback(lambda each: 1 // 0)
        future.add_done_callback(lambda each: calls.append(1))
        answered(steps)
        await future
        await settle()
        assert (calls, [type(each["exception"]) for each in told]) == ([1], [ZeroDivisionError])

    asyncio.run(main())


@EVERY_LOOP
def test_a_cancelled_wait_ends_at_once_and_once(run: Run) -> None:
    async def main() -> None:
        steps = Steps()
        record = steps.send()
        future = await_future(record)

        async def wait() -> None:
            await future

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await settle()
        tasks[0].cancel("enough")
        done, _ = await asyncio.wait(tasks, timeout=SOON_S)
        assert [task.cancelled() for task in done] == [True] * 3
        assert future.cancelled()
        assert future.done()
        assert not future.cancel()
        with pytest.raises(asyncio.CancelledError):
            future.result()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.gather(future)

    run(main())


@EVERY_LOOP
def test_a_gather_that_returns_exceptions_ends_when_its_futures_are_cancelled(run: Run) -> None:
    """It looks at their `_cancel_message`. `wait` itself ends in any case."""

    async def main() -> None:
        steps = Steps()
        futures = [await_future(steps.send()) for _ in range(3)]
        some = asyncio.gather(*futures, return_exceptions=True)
        futures[1].cancel("enough")
        answered(steps)
        done, _ = await asyncio.wait([some], timeout=SOON_S)
        assert done == {some}
        first, second, third = some.result()
        assert [getattr(each, "offset", None) for each in (first, third)] == [0, 1]
        assert isinstance(second, asyncio.CancelledError)
        assert second.args == ("enough",)

        futures = [await_future(steps.send()) for _ in range(3)]
        every = asyncio.gather(*futures, return_exceptions=True)
        assert every.cancel()
        done, _ = await asyncio.wait([every], timeout=SOON_S)
        assert done == {every}
        with pytest.raises(asyncio.CancelledError):
            await every
        assert all(each.record.cancelled() for each in futures)

    run(main())


def test_many_waits_with_time_outs_leave_nothing_behind() -> None:
    """The record's own outcome is not lost with the waits for it."""

    async def main() -> None:
        steps = Steps()
        future = steps.send()
        steps.drain()  # it has left, and cannot be taken back
        for _ in range(200):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(await_future(future)), 0)
        assert not future.done()

    asyncio.run(main())
