"""fastprod for asyncio: a producer whose waits never hold up the event loop."""

from fastprod._core.delivery.async_record_future import AsyncRecordFuture
from fastprod.aio.async_producer import AsyncProducer

__all__ = ["AsyncProducer", "AsyncRecordFuture"]
