"""InitProducerId: an id for every idempotent or transactional producer (B-E4)."""

from __future__ import annotations

from typing import Final

from fastprod.broker.cluster.producer_ids import ProducerIds
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.log.record_batch import NO_PRODUCER, Producer
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.transaction.contents import fenced_code, may_write
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from fastprod.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_FIRST_FENCED_VERSION: Final = 4


class InitProducerIdApi:
    """Handles InitProducerId. Any thread.

    Args:
        producer_ids: gives away the ids of producers without transactions.
        coordinator: gives away the others.
    """

    def __init__(self, producer_ids: ProducerIds, coordinator: TransactionCoordinator) -> None:
        self._ids = producer_ids
        self._coordinator = coordinator

    def handle(self, call: Call[InitProducerIdRequest]) -> None:
        """Give a new id with epoch 0, or the next epoch of a transactional id.

        Who may write to one topic at least may have one without transactions (KIP-679).
        """
        message = call.message
        transactional_id = message.transactional_id
        if transactional_id is not None:
            if may_write(call, transactional_id):
                self._init_transactional(call, transactional_id)
            else:
                self.refuse(call, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        elif not (
            call.allows_cluster(Operation.IDEMPOTENT_WRITE)
            or call.allows_any_topic(Operation.WRITE)
        ):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
        elif (message.producer_id == -1) != (message.producer_epoch == -1):
            self.refuse(call, INVALID_REQUEST, None)
        else:
            _answer(call, NONE, Producer(self._ids.take(), 0))

    def _init_transactional(self, call: Call[InitProducerIdRequest], transactional_id: str) -> None:
        message = call.message
        expected = Producer(message.producer_id, message.producer_epoch)
        if (expected.id == -1) != (expected.epoch == -1):
            self.refuse(call, INVALID_REQUEST, None)
            return
        code, producer = self._coordinator.init_producer_id(
            transactional_id,
            message.transaction_timeout_ms,
            None if expected == NO_PRODUCER else expected,
            call.node_id,
        )
        _answer(call, fenced_code(code, call.version, _FIRST_FENCED_VERSION), producer)

    def refuse(self, call: Call[InitProducerIdRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        _answer(call, code, NO_PRODUCER)


def _answer(call: Call[InitProducerIdRequest], code: int, producer: Producer) -> None:
    call.answer(
        InitProducerIdResponse(
            error_code=code, producer_id=producer.id, producer_epoch=producer.epoch
        )
    )
