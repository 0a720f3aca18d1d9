"""LoopReader: one descriptor a loop, one call for all that is complete, and the end of loops."""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
import threading
from pathlib import Path
from typing import Any

import pytest
import uvloop

from fastprod._core.delivery.async_record_future import need_loop
from support.engine.event_loops import EVERY_LOOP, Run, settle
from support.engine.sender_steps import Steps


def eventfds() -> int:
    found = 0
    for path in Path("/dev/fd").iterdir():
        try:
            found += str(path.readlink()) == "anon_inode:[eventfd]"
        except OSError:
            continue  # the folder's own
    return found


def send_many(steps: Steps, count: int) -> list[Any]:
    return [steps.send(b"%d" % number) for number in range(count)]


@EVERY_LOOP
def test_all_that_is_complete_is_woken_in_the_order_of_the_waits(run: Run) -> None:
    async def main() -> None:
        steps = Steps()
        woken: list[int] = []

        async def wait(number: int, future: Any) -> None:
            await future
            woken.append(number)

        tasks = [asyncio.create_task(wait(*each)) for each in enumerate(send_many(steps, 50))]
        await settle()
        assert woken == []
        steps.answer(steps.drain(), base_offset=0)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert woken == list(range(50))

    run(main())


def test_a_loop_has_one_descriptor_for_all_that_it_awaits(monkeypatch: Any) -> None:
    """And one wake-up for a whole batch."""
    reads: list[int] = []
    selector = selectors.DefaultSelector()
    select = selector.select

    def counted(timeout: float | None = None) -> Any:
        reads.append(1)
        return select(timeout)

    monkeypatch.setattr(selector, "select", counted)
    loop = asyncio.SelectorEventLoop(selector)

    async def main() -> None:
        one, other = Steps(), Steps()
        waits = asyncio.gather(*send_many(one, 500), *send_many(other, 500))
        await settle()
        assert len(selector.get_map()) == before + 1
        one.answer(one.drain(), base_offset=0)
        other.answer(other.drain(), base_offset=0)
        reads.clear()
        await waits
        assert len(reads) < 100

    before = len(selector.get_map())
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_loops_that_end_leave_no_descriptor(new_loop: Any) -> None:
    async def main() -> None:
        steps = Steps()
        future = steps.send()
        steps.answer(steps.drain(), base_offset=7)
        assert (await future).offset == 7

    gc.collect()
    before = eventfds()
    for _ in range(5):
        loop = new_loop()
        loop.run_until_complete(main())
        loop.close()
        del loop
        gc.collect()
    assert eventfds() == before


def test_a_closed_loop_that_lives_on_gives_its_descriptor_up_to_the_next_one() -> None:
    async def main() -> None:
        steps = Steps()
        future = steps.send()
        steps.answer(steps.drain(), base_offset=0)
        await future

    gc.collect()
    before = eventfds()
    loops = []
    for _ in range(4):
        loops.append(asyncio.SelectorEventLoop())
        loops[-1].run_until_complete(main())
        loops[-1].close()
        gc.collect()
        assert eventfds() <= before + 1
    loops.clear()
    gc.collect()
    assert eventfds() == before


class Held:
    """Something that a task holds."""


def test_a_loop_closed_while_records_are_pending_is_not_kept() -> None:
    """The records have their outcome all the same, and the tasks are told by asyncio."""
    steps = Steps()
    future = steps.send()
    loop = asyncio.SelectorEventLoop()
    told: list[str] = []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))

    async def wait() -> None:
        await future

    task = loop.create_task(wait())
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert not task.done()
    steps.answer(steps.drain(), base_offset=3)
    assert future.result(0).offset == 3
    del task
    asyncio.run(_await_one())  # the next loop sweeps
    gc.collect()
    assert told == ["Task was destroyed but it is pending!"]


async def _await_one() -> None:
    steps = Steps()
    future = steps.send()
    steps.answer(steps.drain(), base_offset=0)
    await future


def test_loops_that_go_while_the_next_one_sweeps_are_no_matter() -> None:
    """The garbage collector runs in the midst of anything that makes an object: here of all."""

    async def main(more_objects: int) -> list[Any]:
        held = [(n, n) for n in range(5000)]  # the interpreter keeps no such object ready now
        gc.set_threshold(gc.get_count()[0] + more_objects)
        gc.enable()
        need_loop()
        return held

    usual = gc.get_threshold()
    gc.collect()
    try:
        for more_objects in range(0, 50, 5):
            gc.disable()
            _leave_loops(20)
            asyncio.run(main(more_objects))
    finally:
        gc.set_threshold(*usual)
        gc.enable()


def _leave_loops(count: int) -> None:
    """To the garbage collector, all at once."""
    loops = [asyncio.SelectorEventLoop() for _ in range(count)]
    for loop in loops:
        loop.run_until_complete(_await_one())
    for loop in loops:
        loop.close()
        loop.itself = loop  # type: ignore[attr-defined]


def test_what_a_woken_task_raises_keeps_nobody_else_asleep() -> None:
    """KeyboardInterrupt ends the loop's run; those behind it go on in the next one."""
    steps = Steps()
    first, second = steps.send(), steps.send()
    loop = asyncio.SelectorEventLoop()

    async def interrupt() -> None:
        await first
        raise KeyboardInterrupt

    async def wait() -> int:
        return int((await second).offset)

    tasks = [loop.create_task(interrupt()), loop.create_task(wait())]
    loop.run_until_complete(settle())
    steps.answer(steps.drain(), base_offset=0)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(tasks[1])
    assert loop.run_until_complete(asyncio.wait_for(tasks[1], 30)) == 1
    with pytest.raises(KeyboardInterrupt):
        tasks[0].result()
    loop.close()


def test_timers_get_their_turn_while_much_is_complete() -> None:
    """A turn of the reader is bounded, however many tasks it has to wake."""

    async def main() -> None:
        steps = Steps()
        done = 0
        seen: list[int] = []

        async def wait(future: Any) -> None:
            nonlocal done
            await future
            done += 1

        futures = send_many(steps, 4_000)
        tasks = [asyncio.create_task(wait(future)) for future in futures]
        await settle()
        steps.answer(steps.drain(), base_offset=0)
        while done < len(tasks):
            await asyncio.sleep(0)
            seen.append(done)
        assert any(0 < count < len(tasks) for count in seen)

    asyncio.run(main())


def test_the_task_of_a_timer_goes_on_before_the_reader_has_another_turn() -> None:
    """What a callback puts in the loop's line goes before what the reader has still to wake."""

    async def main() -> None:
        steps = Steps()
        done = at_timer = 0

        async def wait(future: Any) -> None:
            nonlocal done
            await future
            done += 1

        def fire() -> None:
            nonlocal at_timer
            at_timer = done
            waiter.set_result(None)

        tasks = [asyncio.create_task(wait(future)) for future in send_many(steps, 4_000)]
        await settle()
        loop = asyncio.get_running_loop()
        steps.answer(steps.drain(), base_offset=0)
        while done == 0:
            await asyncio.sleep(0)
        waiter = loop.create_future()
        loop.call_later(0, fire)
        await waiter
        assert done == at_timer < len(tasks)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)

    asyncio.run(main())


def test_loops_in_several_threads_are_woken_each() -> None:
    steps = Steps()
    futures = send_many(steps, 40)
    found: list[list[int]] = []
    ready = threading.Barrier(5)

    async def main(mine: list[Any]) -> list[int]:
        waits = asyncio.gather(*mine)
        await settle()
        ready.wait(30)
        return [each.offset for each in await asyncio.wait_for(waits, 30)]

    threads = [
        threading.Thread(target=lambda n=n: found.append(asyncio.run(main(futures[n::4]))))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    ready.wait(30)
    steps.answer(steps.drain(), base_offset=0)
    for thread in threads:
        thread.join(30)
    assert sorted(n for each in found for n in each) == list(range(40))


def test_no_loop_no_wait() -> None:
    future = Steps().send()
    with pytest.raises(RuntimeError, match="no running event loop"):
        future.__await__()


def test_the_child_of_a_fork_has_loops_of_its_own() -> None:
    steps = Steps()
    future = steps.send()

    async def main() -> int:
        wait = asyncio.ensure_future(future)
        await settle()
        child = os.fork()
        if child == 0:
            os._exit(_in_child(future))
        status = await asyncio.to_thread(os.waitpid, child, 0)
        steps.answer(steps.drain(), base_offset=11)
        assert (await wait).offset == 11
        return os.waitstatus_to_exitcode(status[1])

    assert asyncio.run(main()) == 0


def _in_child(future: Any) -> int:
    """0: the parent's future is refused, and a new loop works."""
    asyncio.events._set_running_loop(None)

    async def main() -> int:
        try:
            await future
        except Exception as error:
            if type(error).__name__ != "ForkedFutureError":
                return 2
        else:
            return 3
        await _await_one()
        return 0

    try:
        return asyncio.new_event_loop().run_until_complete(asyncio.wait_for(main(), 30))
    except BaseException:
        return 4
