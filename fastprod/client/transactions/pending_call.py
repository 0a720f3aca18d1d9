"""PendingCall: the call of the API that began something whose outcome nobody has seen yet."""

from __future__ import annotations

from fastprod.client.transactions.transaction_state import TransactionState
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import IllegalStateError, KafkaError


class PendingCall:
    """One at most; it is none any more as soon as a caller has seen the outcome (P-I.2.5).

    Threads: who has the transaction manager's lock.
    """

    def __init__(self) -> None:
        self._call: tuple[TransactionalRequestResult, TransactionState] | None = None

    @property
    def result(self) -> TransactionalRequestResult | None:
        """Of the call; None: there is none."""
        if self._call is None or self._call[0].is_acked:
            return None
        return self._call[0]

    @property
    def target(self) -> TransactionState | None:
        """The state that the call began."""
        return None if self._call is None or self._call[0].is_acked else self._call[1]

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
