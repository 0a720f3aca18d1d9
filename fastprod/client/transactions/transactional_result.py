"""TransactionalRequestResult: how one transactional call ends, for the thread that waits for it."""

from __future__ import annotations

import copy

from fastprod.client.listeners import Listeners
from fastprod.client.system_threads import threads
from fastprod.errors import KafkaError


class TransactionalRequestResult:
    """The outcome of one call; set once, later outcomes are ignored.

    Attributes:
        operation: the call's name.
        error: why it failed; None: it did not, or has not ended.
        listeners: told when there is an outcome.
        is_settled: it cannot fail any more, and ends when the producer can take the next call.
        is_acked: a caller has seen the outcome: the next call may be another one (P-I.2.5).

    Threads: any.  Source: TransactionalRequestResult.
    """

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.error: KafkaError | None = None
        self.is_acked = False
        self.is_settled = False
        self._is_completed = False
        self._latch = threads().Lock()  # held until there is an outcome
        self._latch.acquire()
        self._held = [self._latch]
        self.listeners = Listeners()

    @property
    def is_completed(self) -> bool:
        """Whether there is an outcome."""
        return self._is_completed

    def done(self) -> None:
        """It succeeded."""
        self._end()

    def fail(self, error: KafkaError) -> None:
        """It failed; what is settled has succeeded, and the next call says what is wrong."""
        if not self._is_completed:
            if not self.is_settled:
                self.error = error
            self._end()

    def _end(self) -> None:
        self._is_completed = True
        try:  # noqa: SIM105 - contextlib takes longer than all else here, and a commit waits for it
            self._held.pop().release()
        except IndexError:
            pass  # a signal handler has been here in the midst
        self.listeners.tell()

    def wait(self, timeout_s: float) -> bool:
        """Wait so long for the outcome; whether there is one."""
        if not self._is_completed and self._latch.acquire(timeout=timeout_s):
            self._latch.release()  # for the next one who waits
        return self._is_completed

    def acknowledge(self) -> None:
        """The caller takes the outcome.

        Raises:
            KafkaError: why the call failed, an object of the caller's own.
        """
        self.is_acked = True
        if self.error is not None:
            raise copy.copy(self.error)
