"""Types of what Python sees of `bulk_producer`; the docstrings stand in bulk_producer.pyx."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod._core.producer.producer_base import ProducerBase

class BulkProducer(ProducerBase):
    def send_many(
        self,
        topic: str,
        values: Any,
        keys: Any = None,
        headers: Any = None,
        partitions: Any = None,
        timestamps_ms: Any = None,
    ) -> BulkFuture: ...
    def append_columns(
        self,
        columns: Any = None,
        *,
        topic: Any = None,
        values: Any = None,
        keys: Any = None,
        headers: Any = None,
        header_columns: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
        partitions: Any = None,
        timestamps_ms: Any = None,
    ) -> BulkFuture: ...
