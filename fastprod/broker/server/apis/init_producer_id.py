"""InitProducerId: a new id for every idempotent producer (B-E4)."""

from __future__ import annotations

from fastprod.broker.cluster.producer_ids import ProducerIds
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
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

_NO_EPOCH = -1


class InitProducerIdApi:
    """Handles InitProducerId of producers without transactions. Any thread.

    Args:
        producer_ids: gives the ids away.
    """

    def __init__(self, producer_ids: ProducerIds) -> None:
        self._ids = producer_ids

    def handle(self, call: Call[InitProducerIdRequest]) -> None:
        """Give a new id with epoch 0.

        Who may write to one topic at least may have one (KIP-679).

        Transactions are not supported. Error 53 is the only one on which every client gives up its
        transactional producer at once; after others it asks again until its time-out.
        """
        transactional_id = call.message.transactional_id
        if transactional_id == "":
            self.refuse(call, INVALID_REQUEST, None)
        elif transactional_id is not None:
            self.refuse(call, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        elif not (
            call.allows_cluster(Operation.IDEMPOTENT_WRITE)
            or call.allows_any_topic(Operation.WRITE)
        ):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
        else:
            call.answer(
                InitProducerIdResponse(
                    error_code=NONE, producer_id=self._ids.take(), producer_epoch=0
                )
            )

    def refuse(self, call: Call[InitProducerIdRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH))
