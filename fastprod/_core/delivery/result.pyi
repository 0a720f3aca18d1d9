"""What Python sees of `result`: the outcomes that no broker sends; see result.pxd."""

ERR_NONE: int
ERR_EXPIRED: int
ERR_ABORTED: int
ERR_SPLIT: int
ERR_NO_CODEC: int
ERR_NO_ZSTD: int
ERR_TXN_ABORTED: int
ERR_CANCELLED: int
ERR_DEADLINE: int
ERR_PURGED: int
WAIT_LEADER: int
WAIT_PRODUCER_ID: int
