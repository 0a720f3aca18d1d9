"""ThreadSignal: other threads wake the tasks of a loop."""

from __future__ import annotations

import asyncio
import threading

from fastprod.aio.thread_signal import ThreadSignal
from fastprod.client.listeners import Listeners
from support.engine.event_loops import EVERY_LOOP, Run, settle

WAIT_S = 30.0


@EVERY_LOOP
def test_every_task_that_waits_is_woken(run: Run) -> None:
    async def main() -> None:
        listeners = Listeners()
        signal = ThreadSignal(listeners)
        news: list[int] = []
        seen: list[int] = []

        async def wait() -> None:
            with signal:
                while not news:
                    await signal.wait(WAIT_S)
                seen.append(news[0])

        def bring() -> None:
            news.append(7)
            listeners.tell()

        tasks = [asyncio.create_task(wait()) for _ in range(4)]
        await settle()
        thread = threading.Thread(target=bring)
        thread.start()
        await asyncio.wait_for(asyncio.gather(*tasks), WAIT_S)
        assert seen == [7] * 4
        thread.join(WAIT_S)

    run(main())


def test_a_wait_has_a_bound_and_nobody_listens_after_it() -> None:
    async def main() -> None:
        listeners = Listeners()
        signal = ThreadSignal(listeners)
        with signal, signal:
            await signal.wait(0)
            assert len(listeners._functions) == 1
        assert not listeners._functions

    asyncio.run(main())


def test_a_loop_that_is_closed_or_gone_is_told_nothing() -> None:
    listeners = Listeners()

    async def main() -> ThreadSignal:
        signal = ThreadSignal(listeners)
        signal.__enter__()
        return signal

    loop = asyncio.SelectorEventLoop()
    signal = loop.run_until_complete(main())
    loop.close()
    listeners.tell()
    del loop
    listeners.tell()
    signal.__exit__(None, None, None)
