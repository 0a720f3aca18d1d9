"""PendingCall: the call of the API that began something whose outcome nobody has seen yet."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.client.transactions.transaction_state import TransactionState
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import AuthenticationError, IllegalStateError, KafkaError


class PendingCall:
    """One at most; it is none any more as soon as a caller has seen the outcome (P-I.2.5).

    Args:
        is_refused: whether what a broker refused the user for still stands, as far as is known.

    Threads: who has the transaction manager's lock.
    """

    def __init__(self, is_refused: Callable[[], bool]) -> None:
        self._is_refused = is_refused
        self._call: tuple[TransactionalRequestResult, TransactionState] | None = None

    @property
    def result(self) -> TransactionalRequestResult | None:
        """Of the call; None: there is none."""
        call = self._current()
        return None if call is None else call[0]

    @property
    def target(self) -> TransactionState | None:
        """The state that the call began."""
        call = self._current()
        return None if call is None else call[1]

    def _current(self) -> tuple[TransactionalRequestResult, TransactionState] | None:
        """The call that is not over. What init_transactions() was refused for while nobody waited
        may be so no more, as when the user was replaced: it is asked for anew then."""
        call = self._call  # a signal handler may begin another one
        if call is None:
            return None
        result, target = call
        is_refusal = isinstance(result.error, AuthenticationError)
        if target is TransactionState.INITIALIZING and is_refusal and not self._is_refused():
            result.is_acked = True
        return None if result.is_acked else call

    def begun(
        self, result: TransactionalRequestResult, target: TransactionState
    ) -> TransactionalRequestResult:
        """A call has begun something; return its result."""
        self._call = result, target
        return result

    def fail(self, error: KafkaError) -> None:
        """What has begun has failed."""
        if self._call is not None:
            self._call[0].fail(error)

    def fail_if_any(self, operation: str) -> None:
        """Another call has to wait.

        Raises:
            IllegalStateError: which call has begun something.
        """
        result = self.result
        if result is not None:
            raise IllegalStateError(
                f"{operation}() is not possible: {result.operation}() has not ended; if it timed "
                f"out, call it again or close the producer"
            )
