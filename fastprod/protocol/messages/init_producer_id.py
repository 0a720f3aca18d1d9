"""InitProducerId, key 22."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import INIT_PRODUCER_ID
from fastprod.protocol.schema import INT16, INT32, INT64, STRING, field, message


@message
class InitProducerIdRequest:
    """A producer asks for its id; from version 3 on it names the one that it has."""

    transactional_id: str | None = field(STRING, nullable="0+")
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, "3+", default=-1)
    producer_epoch: int = field(INT16, "3+", default=-1)


@message
class InitProducerIdResponse:
    """The id and the epoch."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)


API = Api(
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
    versions=(0, 5),
    flexible_from=2,
)
