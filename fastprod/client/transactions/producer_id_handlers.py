"""FindCoordinator, InitProducerId and EndTxn: how a transactional producer begins, and ends one."""

from __future__ import annotations

from typing import Final

from fastprod.client.producer_id import check_producer_id
from fastprod.client.transactions.request_handler import (
    ANY_VERSION,
    CoordinatorType,
    ManagerView,
    Priority,
    TxnRequestHandler,
    group_refusal,
)
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from fastprod.errors import KafkaError, error_for_code
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages import find_coordinator, init_producer_id
from fastprod.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from fastprod.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from fastprod.protocol.messages.transaction import end_txn
from fastprod.protocol.messages.transaction.end_txn import EndTxnRequest, EndTxnResponse
from fastprod.records import Node

_BATCHED_FROM: Final = 4
_LAST_OF_FIRST_PROTOCOL: Final = 4
_NOT_AUTHORIZED: Final = frozenset(
    {TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED}
)


class FindCoordinatorHandler(TxnRequestHandler):
    """Who looks after the transactional id, or a group?

    Args:
        manager: whose producer it is for.
        kind: whose coordinator is looked for.
        key: the transactional id, or the group's.
    """

    api = find_coordinator.API
    priority = Priority.FIND_COORDINATOR
    coordinator_type = None

    def __init__(self, manager: ManagerView, kind: CoordinatorType, key: str) -> None:
        super().__init__(manager, TransactionalRequestResult("FindCoordinator"))
        self.kind = kind
        self.key = key

    @property
    def is_needed_to_abort(self) -> bool:
        """The end of a transaction goes to its own coordinator."""
        return self.kind is CoordinatorType.TRANSACTION

    def message(self, version: int) -> FindCoordinatorRequest:
        """P-I.3.7"""
        if version >= _BATCHED_FROM:
            return FindCoordinatorRequest(key_type=self.kind, coordinator_keys=[self.key])
        return FindCoordinatorRequest(key=self.key, key_type=self.kind)

    def answered(self, answer: FindCoordinatorResponse, version: int) -> None:
        """P-I.6"""
        found: FindCoordinatorResponse | Coordinator = answer
        if version >= _BATCHED_FROM:
            if len(answer.coordinators) != 1:
                count = len(answer.coordinators)
                self.fatal_error(
                    KafkaError(f"FindCoordinator was answered with {count} coordinators, not one")
                )
                return
            found = answer.coordinators[0]
        code = found.error_code
        error = None if code == 0 else error_for_code(code, message=found.error_message)
        if error is None:
            node = Node(found.node_id, found.host, found.port)
            self.manager.line.coordinator_found(self.kind, self.key, node)
            self.result.done()
        elif error.retriable or code == COORDINATOR_NOT_AVAILABLE:
            self.refused(error)
            self.retry()
        elif code == GROUP_AUTHORIZATION_FAILED:
            self.abortable_error(group_refusal(self.key))
        elif code == TRANSACTION_ABORTABLE:
            self.abortable_error(error)
        elif code in _NOT_AUTHORIZED:
            self.fatal_error(error)
        else:
            self.unexpected(code)


class InitProducerIdHandler(TxnRequestHandler):
    """The producer id and epoch of the transactional id, or the next epoch of ours (KIP-360).

    Args:
        manager: whose producer it is for.
        result: of the call that waits for it.
        is_epoch_bump: it goes behind EndTxn, and names the id and epoch that we have.
    """

    api = init_producer_id.API

    def __init__(
        self,
        manager: ManagerView,
        result: TransactionalRequestResult,
        *,
        is_epoch_bump: bool,
    ) -> None:
        super().__init__(manager, result)
        self.is_epoch_bump = is_epoch_bump
        self.priority = Priority.EPOCH_BUMP if is_epoch_bump else Priority.INIT_PRODUCER_ID

    def message(self, version: int) -> InitProducerIdRequest:
        """P-I.4"""
        manager = self.manager
        message = InitProducerIdRequest(
            transactional_id=manager.transactional_id,
            transaction_timeout_ms=manager.transaction_timeout_ms,
        )
        if self.is_epoch_bump:
            message.producer_id, message.producer_epoch = manager.producer_id_and_epoch
        return message

    def answered(self, answer: InitProducerIdResponse, version: int) -> None:
        """P-I.6"""
        code = answer.error_code
        if code == 0:
            check_producer_id(answer)
            self.manager.producer_id_arrived(answer.producer_id, answer.producer_epoch)
            self.manager.initialized(self.result, is_epoch_bump=self.is_epoch_bump)
        elif code in _NOT_AUTHORIZED:
            self.manager.initialization_refused(error_for_code(code), self.result)
        elif not self.common_error(code):
            self.unexpected(code)


class EndTxnHandler(TxnRequestHandler):
    """The transaction is to be committed, or aborted.

    Args:
        manager: whose producer it is for.
        result: of the call that waits for it.
        committed: which of both.
        is_v2: the transaction is of the protocol that bumps the epoch by this (KIP-890).
    """

    api = end_txn.API
    priority = Priority.END_TXN
    is_end_txn = True

    def __init__(
        self,
        manager: ManagerView,
        result: TransactionalRequestResult,
        *,
        committed: bool,
        is_v2: bool,
    ) -> None:
        super().__init__(manager, result)
        self.committed = committed
        self.is_v2 = is_v2
        self.highest_version = ANY_VERSION if is_v2 else _LAST_OF_FIRST_PROTOCOL

    def message(self, version: int) -> EndTxnRequest:
        """P-I.4"""
        producer_id, epoch = self.manager.producer_id_and_epoch
        return EndTxnRequest(
            transactional_id=self.manager.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=self.committed,
        )

    def answered(self, answer: EndTxnResponse, version: int) -> None:
        """P-I.6, P-I.6.4"""
        code = answer.error_code
        if code == 0:
            if answer.producer_id >= 0:
                if answer.producer_epoch < 0:
                    raise SchemaError(f"epoch {answer.producer_epoch} of a producer id")
                self.manager.producer_id_arrived(answer.producer_id, answer.producer_epoch)
            self.manager.complete_transaction(self.result)
        elif code == TRANSACTION_ABORTABLE and not self.committed:
            self.unexpected(code)  # there is nothing left to abort it with
        elif not self.common_error(code):
            self.unexpected(code)
