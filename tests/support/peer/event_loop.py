"""The one thread that owns a peer's sockets: it waits for them, for timers and for calls."""

from __future__ import annotations

import contextlib
import functools
import heapq
import selectors
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Result = TypeVar("Result")


class LoopStoppedError(RuntimeError):
    """The peer is closed: its thread takes no more calls."""


@dataclass(order=True)
class _Timer:
    when_s: float
    number: int
    action: Callable[[], None] = field(compare=False)


class EventLoop:
    """Runs callbacks in a thread of its own; every socket of a peer is touched there alone.

    THREADS: `call`, `start` and `stop` are for any thread, the rest for the loop's own.

    Args:
        name: name of the thread.
        patience_s: bound of `call` and `stop`.
        report: told of what a callback raised.
    """

    def __init__(self, name: str, patience_s: float, report: Callable[[str], None]) -> None:
        self._patience_s = patience_s
        self._report = report
        self._selector = selectors.DefaultSelector()
        self._watched: dict[socket.socket, int] = {}
        self._timers: list[_Timer] = []
        self._timer_count = 0
        self._calls: deque[Callable[[], None]] = deque()
        self._calls_lock = threading.Lock()
        self._stopped = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, READ, self._drain_wake)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and join it; a second call is harmless."""
        with self._calls_lock:
            if self._stopped:
                return
            self._stopped = True
        self._wake()
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not end within {self._patience_s} s")
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def call(self, action: Callable[[], Result]) -> Result:
        """Run `action` in the loop's thread and return what it returns or raise what it raises."""
        if self.is_own_thread:
            return action()
        outcome: Future[Result] = Future()

        def run() -> None:
            try:
                outcome.set_result(action())
            except BaseException as error:
                outcome.set_exception(error)

        with self._calls_lock:
            if self._stopped:
                raise LoopStoppedError(f"{self._thread.name} is closed")
            self._calls.append(run)
        self._wake()
        try:
            return outcome.result(self._patience_s)
        except TimeoutError as error:
            if outcome.done():
                raise
            raise TimeoutError(
                f"{self._thread.name} did not take a call within {self._patience_s} s:"
                " is a reply function or a predicate blocking it?"
            ) from error

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Run `action` once `time.monotonic()` has reached `when_s`."""
        self._timer_count += 1
        heapq.heappush(self._timers, _Timer(when_s, self._timer_count, action))

    def watch(self, sock: socket.socket, events: int, action: Callable[[int], None]) -> None:
        """Call `action(events)` whenever one of `events` is ready; 0 ends the watching."""
        known = self._watched.get(sock, 0)
        if events == known:
            return
        if not events:
            self._selector.unregister(sock)
            del self._watched[sock]
        elif known:
            self._selector.modify(sock, events, action)
            self._watched[sock] = events
        else:
            self._selector.register(sock, events, action)
            self._watched[sock] = events

    def _wake(self) -> None:
        # A full pipe wakes as well, and a closed one belongs to a loop that has ended.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\0")

    def _drain_wake(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_reader.recv(4096)

    def _run(self) -> None:
        while not self._stopped:
            timeout_s = self._patience_s
            if self._timers:
                timeout_s = max(0.0, self._timers[0].when_s - time.monotonic())
            for key, events in self._selector.select(timeout_s):
                # A callback before this one may have ended the watching.
                if key.fileobj in self._watched or key.fileobj is self._wake_reader:
                    self._guarded(functools.partial(key.data, events))
            while self._calls and not self._stopped:
                self._guarded(self._calls.popleft())
            while self._timers and self._timers[0].when_s <= time.monotonic():
                self._guarded(heapq.heappop(self._timers).action)
        with self._calls_lock:
            left = list(self._calls)
            self._calls.clear()
        for run in left:
            self._guarded(run)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            self._report(f"the peer's own thread raised:\n{traceback.format_exc()}")
