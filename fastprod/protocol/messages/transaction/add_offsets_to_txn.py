"""AddOffsetsToTxn, key 25."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import ADD_OFFSETS_TO_TXN
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, field, message


@message
class AddOffsetsToTxnRequest:
    """A group whose offsets belong to the transaction from now on."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


@message
class AddOffsetsToTxnResponse:
    """Whether they do."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)


API = Api(
    ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    versions=(0, 4),
    flexible_from=3,
)
