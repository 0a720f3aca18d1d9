"""InitProducerId: an id of its own for every idempotent producer (E4, first line)."""

from __future__ import annotations

from fastprod.broker import codes
from fastprod.broker.apis.call import Call
from fastprod.broker.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from fastprod.broker.producer_ids import ProducerIds

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

        Transactions are not there yet. Of all codes 53 is the one that every client takes as the
        end of its transactional producer at once: others make it ask again until its time is over.
        """
        transactional_id = call.message.transactional_id
        if transactional_id == "":
            self.refuse(call, codes.INVALID_REQUEST, None)
        elif transactional_id is not None:
            self.refuse(call, codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        else:
            call.answer(
                InitProducerIdResponse(
                    error_code=codes.NONE, producer_id=self._ids.take(), producer_epoch=0
                )
            )

    def refuse(self, call: Call[InitProducerIdRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH))
