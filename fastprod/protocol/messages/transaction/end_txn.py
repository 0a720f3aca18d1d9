"""EndTxn, key 26."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import END_TXN
from fastprod.protocol.schema import BOOL, INT16, INT32, INT64, STRING, field, message


@message
class EndTxnRequest:
    """A transaction is to be committed, or aborted."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


@message
class EndTxnResponse:
    """Whether it will be; from version 5 on with the id and epoch for the next one."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, "5+", default=-1)
    producer_epoch: int = field(INT16, "5+", default=-1)


API = Api(END_TXN, EndTxnRequest, EndTxnResponse, versions=(0, 5), flexible_from=3)
