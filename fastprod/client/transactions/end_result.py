"""EndResult: how the end of a transaction ends, for the caller that waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fastprod.client.transactions.transactional_result import TransactionalRequestResult


class EndEngine(Protocol):
    """Where a caller waits for the answer to EndTxn; see engine.pyi."""

    @property
    def abandoned(self) -> bool: ...
    def await_end(
        self, token: int, timeout_s: float, on_answer: Callable[[int, int, int], None]
    ) -> None: ...
    def end_known(self, token: int) -> None: ...


class EndResult(TransactionalRequestResult):
    """The outcome of a commit or an abort, whose caller does not wait for the control thread.

    A commit takes a millisecond, and two threads less to wake up save a tenth of that: the I/O
    thread hands a good answer to EndTxn to the caller that sleeps for it.

    Args:
        operation: the call's name.
        engine: knows the answer.
        token: of `end_transaction`.
        on_answer: told `token`, and the producer id and epoch of a good answer, by the thread that
            waits.

    Threads: any.
    """

    def __init__(
        self,
        operation: str,
        engine: EndEngine,
        token: int,
        on_answer: Callable[[int, int, int], None],
    ) -> None:
        super().__init__(operation)
        self._engine = engine
        self._token = token
        self._on_answer = on_answer

    def _end(self) -> None:
        super()._end()
        self._engine.end_known(self._token)

    def wait(self, timeout_s: float) -> bool:
        """Wait so long for the outcome, or for the answer that is it; whether there is one."""
        if self._engine.abandoned:
            return super().wait(timeout_s)
        if not self.is_completed:
            self._engine.await_end(self._token, timeout_s, self._on_answer)
        return self.is_completed
