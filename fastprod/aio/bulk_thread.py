"""BulkThread: where an AsyncProducer reads columns."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable
from typing import Any

from fastprod._core.producer.bulk_future import BulkFuture


class BulkThread:
    """One thread, started by the first call, for all bulk calls of a producer, in their order.

    Reading and appending columns takes long and runs without the GIL, and so does its wait for
    memory: in the loop's own thread it would hold up the loop.

    Args:
        client_id: names the thread.

    Threads: any.
    """

    def __init__(self, client_id: str) -> None:
        self._name = f"kafka-producer-bulk | {client_id}"
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._pid = 0

    async def run(self, call: Callable[..., BulkFuture], *columns: Any, **more: Any) -> BulkFuture:
        """`call` with these arguments. If this is cancelled, a call that has begun goes on; at its
        end what has not left is taken back."""
        if self._executor is None or self._pid != os.getpid():  # the thread is the parent's
            self._executor = concurrent.futures.ThreadPoolExecutor(1, self._name)
            self._pid = os.getpid()
        is_refused = threading.Event()
        try:
            future = self._executor.submit(_unless, is_refused, call, *columns, **more)
        except BaseException:  # no thread; but the call may be in the line, and the next one starts
            is_refused.set()
            raise
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if not future.cancel():
                future.add_done_callback(_take_back)
            raise

    def end(self) -> None:
        """The thread ends once its calls have; another call starts another one."""
        executor, self._executor = self._executor, None
        if executor is not None and self._pid == os.getpid():
            executor.shutdown(wait=False)


def _unless(
    is_refused: threading.Event, call: Callable[..., BulkFuture], /, *columns: Any, **more: Any
) -> BulkFuture:
    """`call`, unless its caller was told that it cannot be made."""
    if is_refused.is_set():
        raise concurrent.futures.CancelledError
    return call(*columns, **more)


def _take_back(future: concurrent.futures.Future[BulkFuture]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().cancel()
