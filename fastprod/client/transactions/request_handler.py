"""TxnRequestHandler: one transactional request, from its place in line to its answer."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NOT_COORDINATOR,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_PRODUCER_ID,
)
from fastprod.errors import KafkaError, error_for_code
from fastprod.protocol.api import Api
from fastprod.records import ConsumerGroupMetadata, Node, OffsetAndMetadata, TopicPartition

ANY_VERSION: Final = 32_767
_COORDINATOR_MOVED: Final = frozenset({COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
_FENCED: Final = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
_FATAL: Final = frozenset(
    {
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        INVALID_TXN_STATE,
        INVALID_PRODUCER_ID_MAPPING,
    }
)


class Priority(enum.IntEnum):
    """Which request goes first (P-I.3.1)."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TXN = 3
    EPOCH_BUMP = 4


class CoordinatorType(enum.IntEnum):
    """Whose coordinator, as FindCoordinator numbers them."""

    GROUP = 0
    TRANSACTION = 1


class LineView(Protocol):
    """What a request asks of the line that it waits in; see `RequestLine`."""

    def reenqueue(self, handler: TxnRequestHandler, backoff_ms: int | None = None) -> None: ...
    def lookup_coordinator(
        self, kind: CoordinatorType, group_id: str = "", pause_ms: int = 0
    ) -> None: ...
    def coordinator_found(self, kind: CoordinatorType, key: str, node: Node) -> None: ...


class ManagerView(Protocol):
    """What a request asks of its producer, and tells it; see `TransactionManager`."""

    transactional_id: str
    transaction_timeout_ms: int
    retry_backoff_ms: int
    producer_id_and_epoch: tuple[int, int]

    @property
    def line(self) -> LineView: ...
    @property
    def has_added_partitions(self) -> bool: ...
    def producer_id_arrived(self, producer_id: int, epoch: int) -> None: ...
    def initialized(self, result: TransactionalRequestResult, *, is_epoch_bump: bool) -> None: ...
    def initialization_refused(
        self, error: KafkaError, result: TransactionalRequestResult
    ) -> None: ...
    def partitions_added(self, partitions: Collection[TopicPartition]) -> None: ...
    def offsets_added(
        self,
        result: TransactionalRequestResult,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None: ...
    def complete_transaction(self, result: TransactionalRequestResult) -> None: ...
    def abortable_error_if_possible(self, error: KafkaError) -> None: ...
    def transition_to_abortable_error(self, error: KafkaError) -> None: ...
    def transition_to_fatal_error(self, error: KafkaError) -> None: ...


def group_refusal(group_id: str) -> KafkaError:
    """The error of who may not use a group."""
    return error_for_code(
        GROUP_AUTHORIZATION_FAILED, message=f"the broker's ACLs refuse the group {group_id!r}"
    )


class TxnRequestHandler:
    """One request: how it reads, whom it goes to, and what its answer means.

    Attributes:
        api: its messages.
        priority: its place in line.
        coordinator_type: who is asked; None: any broker.
        highest_version: of the request in this transaction.
        is_end_txn: it waits until every record has its outcome (P-I.3.2).
        group_id: whose group coordinator is asked.
        offsets_of: the group whose offsets it is about, which count as they were given.
        due_ms: not to be sent before, by the control thread's clock.
        waiting_since_ms: when its coordinator was first not connected; None: it is.
        is_uncertain: it was sent, and had no answer: it may have been done, or be done yet. What is
            said to a repetition that is refused for now does not tell.
        last_refusal: what its last answer said, after which it is sent again; "" if there was none.

    Args:
        manager: whose producer it is for.
        result: what the request completes.

    Used by the control thread, under the manager's lock.  Source: TxnRequestHandler; P-I.3, P-I.6.
    """

    api: Api[Any, Any]
    priority: Priority
    coordinator_type: CoordinatorType | None = CoordinatorType.TRANSACTION
    highest_version: int = ANY_VERSION
    is_end_txn = False
    group_id = ""
    offsets_of = ""

    def __init__(self, manager: ManagerView, result: TransactionalRequestResult) -> None:
        self.manager = manager
        self.result = result
        self.due_ms = 0
        self.waiting_since_ms: int | None = None
        self.is_uncertain = False
        self.last_refusal = ""

    @property
    def is_needed_to_abort(self) -> bool:
        """Whether a transaction cannot be aborted before it has an answer (P-I.3.8)."""
        return True

    @property
    def is_of_transaction(self) -> bool:
        """Whether it adds to a transaction, or ends it."""
        return self.priority in (Priority.ADD_PARTITIONS_OR_OFFSETS, Priority.END_TXN)

    def message(self, version: int) -> Any:
        """The request.

        Raises:
            UnsupportedVersionError: the broker is too old for what is in it.
        """
        raise NotImplementedError

    def answered(self, answer: Any, version: int) -> None:
        """Take the answer."""
        raise NotImplementedError

    # What an answer may mean.

    def retry(self, backoff_ms: int | None = None) -> None:
        """Send it again after a while."""
        self.manager.line.reenqueue(self, backoff_ms)

    def look_up_and_retry(self) -> None:
        """The coordinator is another one: find it, then send it there."""
        if self.coordinator_type is not None:
            self.manager.line.lookup_coordinator(self.coordinator_type, self.group_id)
        self.retry()

    def lost(self) -> None:
        """The connection ended before the answer (P-I.3.6)."""
        self.look_up_and_retry()

    def abortable_error(self, error: KafkaError) -> None:
        """The transaction is to be aborted; the producer stays usable."""
        self.manager.transition_to_abortable_error(error)
        self.result.fail(error)

    def fatal_error(self, error: KafkaError) -> None:
        """The producer is finished."""
        self.manager.transition_to_fatal_error(error)
        self.result.fail(error)  # after it: who hears of this may go on at once

    def fail(self, error: KafkaError) -> None:
        """It is not sent, for something else has failed."""
        self.result.fail(error)

    def refused(self, error: KafkaError) -> None:
        """Note an answer after which it is sent again."""
        self.last_refusal = f"{self.api.name} is answered with {error}"

    def common_error(self, code: int) -> bool:
        """Do what most requests do about an error (P-I.6); False: it is not among those."""
        error = error_for_code(code)
        self.refused(error)
        if code in _COORDINATOR_MOVED:
            self.look_up_and_retry()
        elif error.retriable:
            self.retry()
        elif code in _FENCED:
            self.fatal_error(error_for_code(PRODUCER_FENCED))
        elif code in _FATAL:
            self.fatal_error(error)
        elif code == UNKNOWN_PRODUCER_ID:
            self.manager.abortable_error_if_possible(error)
            self.result.fail(error)
        elif code == TRANSACTION_ABORTABLE:
            self.abortable_error(error)
        else:
            return False
        return True

    def unexpected(self, code: int) -> None:
        """An error that such an answer should not have."""
        error = error_for_code(code)
        said = KafkaError(f"{self.api.name} was answered with {error}", code=code, name=error.name)
        said.__cause__ = error
        self.fatal_error(said)
