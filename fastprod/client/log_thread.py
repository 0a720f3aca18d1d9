"""LogThread: runs the application's logging handlers for the producers' own threads."""

from __future__ import annotations

import functools
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from fastprod._core.delivery.fork_watch import run_in_child
from fastprod.client.system_threads import threads
from fastprod.log import hand_over, own_thread, shielded

if TYPE_CHECKING:
    import logging

LONGEST_WAIT_S: Final = 1.0
MOST_RECORDS: Final = 10_000


class LogThread:
    """Hands what was logged to its logger, in order, on a thread that lives while there is any.

    A handler is the application's: it may wait for records of the producer that logs, or for a
    lock whose owner waits for them. In the thread that makes connections it would wait for itself.
    Of more than `MOST_RECORDS` that wait, for a handler that is stuck, the oldest are dropped; a
    warning tells how many.

    Threads: any.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threads().RLock()  # a collection within `_take` may log
        self._records: deque[tuple[logging.Logger, logging.LogRecord]] = deque(maxlen=MOST_RECORDS)
        self._dropped_count = 0
        self._thread: threading.Thread | None = None
        self._is_running = False

    def after_fork_in_child(self) -> None:
        """What was not handled yet is the parent's."""
        self._forget()

    def serve(self) -> None:
        """Handle from now on what the calling thread logs."""
        own_thread()
        hand_over(self.handing)

    def wait(self) -> None:
        """Wait until all is handled, a second at most: a handler may wait for the caller.

        Does not wait in a handler that it runs.
        """
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threads().current_thread():
            thread.join(LONGEST_WAIT_S)

    def handing(self, logger: logging.Logger) -> logging.Logger:
        """Return a logger that makes its records where they are logged, and leaves them to us."""
        import logging  # noqa: PLC0415

        made = logging.Logger(logger.name)
        take = functools.partial(self._take, logger)
        vars(made).update(isEnabledFor=logger.isEnabledFor, handle=take)
        return made

    def _take(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        """Let the logger handle the record soon; at once, if the system gives no thread."""
        with self._lock:
            self._dropped_count += len(self._records) == MOST_RECORDS
            self._records.append((logger, record))
            if self._is_running:
                return
            self._is_running = True
            self._thread = threads().Thread(
                target=self._run_alone, name="fastprod-log", daemon=True
            )
            try:
                self._thread.start()
                return
            except RuntimeError:
                self._thread = None
        self._run()

    def _run_alone(self) -> None:
        own_thread()
        self._run()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            dropped_count, logger, record = found
            if dropped_count:
                text = "%d messages before the next one were dropped: a logging handler was stuck"
                shielded(logger.warning, text, dropped_count)
            shielded(logger.handle, record)

    def _next(self) -> tuple[int, logging.Logger, logging.LogRecord] | None:
        """How many were dropped before the next one, and that one; None: there is none."""
        with self._lock:
            if not self._records:
                self._is_running = False
                return None
            dropped_count, self._dropped_count = self._dropped_count, 0
            return dropped_count, *self._records.popleft()


LOG_THREAD: Final = LogThread()
"""The process's: logging is, too."""

run_in_child(LOG_THREAD.after_fork_in_child)
