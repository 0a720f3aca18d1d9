"""BulkThread: where an AsyncProducer reads columns."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.client.fork_lock import fork_lock
from fastprod.client.system_threads import threads
from fastprod.errors import ApiError, IllegalStateError

_Future = concurrent.futures.Future[BulkFuture]
_Line = queue.SimpleQueue[tuple[_Future, Callable[[], BulkFuture]] | None]


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
        self._lock = fork_lock()
        self._line: _Line | None = None  # of calls to the thread; None ends it
        self._pid = 0
        self._calls: set[_Call] = set()  # under way, or in line
        self._here = threading.local()

    async def run(
        self,
        missing: Mapping[str, ApiError],
        call: Callable[..., BulkFuture],
        /,
        *columns: Any,
        **more: Any,
    ) -> BulkFuture:
        """`call` with these arguments. If this is cancelled, a call that has begun ends where it
        next waits for a topic or for memory, comes to a row for plug-ins or to a chunk of rows, or
        else at its own end; then what has not left is taken back. Plug-ins see the task's context
        variables, in a copy, as where `send` calls them.

        Args:
            missing: topics that it need not wait for, and why they did not come.
        """
        made, context = _Call(missing), contextvars.copy_context()
        made.future = future = _Future()
        with self._lock:  # else `end` of another thread could come in front of it in the line
            line = self._started()
            self._calls.add(made)
            line.put((future, partial(context.run, self._make, made, call, *columns, **more)))
        future.add_done_callback(lambda _: self._calls.discard(made))
        waiter = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            made.is_called_off = True
            waiter.add_done_callback(_hear)
            if not future.cancel():
                future.add_done_callback(_take_back)
            raise

    def go_on(self, topic: str | None = None) -> None:
        """Return, unless the call that this thread makes is to end, or not to wait for a topic.

        Raises:
            CalledOff: it was called off.
            ApiError: why the topic has not come.
        """
        made: _Call | None = getattr(self._here, "made", None)
        if made is None:
            return
        if made.is_called_off:
            raise CalledOff("the call was cancelled, or its transaction has ended")
        if topic is not None and topic in made.missing:
            raise made.missing[topic].with_traceback(None)

    def call_off(self) -> None:
        """Calls that have not ended are to end: their transaction does."""
        for made in self._own_calls():
            made.is_called_off = True

    async def idle(self, timeout_s: float) -> bool:
        """Wait until the calls that have not ended have; whether they did in time."""
        futures = [made.future for made in self._own_calls() if made.future is not None]
        if not futures:
            return True
        waiters = [asyncio.wrap_future(future) for future in futures]
        for waiter in waiters:
            waiter.add_done_callback(_hear)
        _, late = await asyncio.wait(waiters, timeout=timeout_s)
        return not late

    def _own_calls(self) -> list[_Call]:
        return list(self._calls) if self._pid == os.getpid() else []  # else they are the parent's

    def end(self) -> None:
        """The thread ends once its calls have; another call starts another one."""
        with self._lock:
            line, self._line = self._line, None
            if line is not None and self._pid == os.getpid():
                line.put(None)

    def _started(self) -> _Line:
        """The line of a thread that runs; the lock is held.

        Raises:
            RuntimeError: the system gives no thread.
        """
        if self._line is None or self._pid != os.getpid():  # the thread is the parent's
            line: _Line = queue.SimpleQueue()
            weakref.finalize(self, line.put, None).atexit = False
            # No one waits for it at the end of the process: the producer is closed then.
            run = partial(_make_all, line)
            threads().Thread(target=run, name=self._name, daemon=True).start()
            self._line, self._pid, self._calls = line, os.getpid(), set()
        return self._line

    def _make(
        self, made: _Call, call: Callable[..., BulkFuture], /, *columns: Any, **more: Any
    ) -> BulkFuture:
        self._here.made = made
        try:
            self.go_on()
            return call(*columns, **more)
        except CalledOff as end:
            error = IllegalStateError("the transaction in which this call began has ended")
            error.sent_records = getattr(end, "sent_records", None)  # type: ignore[attr-defined]
            raise error from None
        finally:
            self._here.made = None


def _make_all(line: _Line) -> None:
    """The thread: one call after the other."""
    while (call := line.get()) is not None:
        _make_one(*call)
        del call  # what it holds may be the last of a producer


def _make_one(future: _Future, call: Callable[[], BulkFuture]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        bulk = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(bulk)


class CalledOff(BaseException):
    """Ends a call in the thread for bulks; no row and no plug-in is to take it for its own."""


class _Call:
    """A call on its way to the thread, or in it."""

    def __init__(self, missing: Mapping[str, ApiError]) -> None:
        self.missing = missing
        self.future: _Future | None = None
        self.is_called_off = False


def _hear(waiter: asyncio.Future[BulkFuture]) -> None:
    """Else the event loop would log that nobody has."""
    if not waiter.cancelled():
        waiter.exception()


def _take_back(future: _Future) -> None:
    if future.cancelled():
        return
    error = future.exception()
    bulk = future.result() if error is None else getattr(error, "sent_records", None)
    if bulk is not None:
        bulk.cancel()
