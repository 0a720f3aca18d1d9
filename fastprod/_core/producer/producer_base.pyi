"""Types of what Python sees of `producer_base`; the docstrings stand in producer_base.pyx."""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Buffer

from fastprod._core.delivery.async_record_future import AsyncRecordFuture
from fastprod._core.delivery.future import RecordFuture
from fastprod._core.engine.engine import Engine, TopicRef
from fastprod._core.producer.memory_turn import MemoryTurn
from fastprod.errors import BufferExhaustedError, KafkaError, RecordTooLargeError
from fastprod.records import Headers, ProducerRecord, RecordMetadata

_Headers = Headers | Sequence[tuple[str, Buffer | None]] | dict[str, Buffer | None]
_OnDelivery = Callable[[RecordMetadata, KafkaError | None], object]

class ProducerBase:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def closed(self) -> bool: ...
    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: _OnDelivery | None = None,
        deadline: float | None = None,
    ) -> RecordFuture: ...
    def try_send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: _OnDelivery | None = None,
    ) -> RecordFuture: ...
    # What KafkaProducer uses.
    @property
    def _engine(self) -> Engine: ...
    def _attach(
        self,
        engine: Engine,
        *,
        is_simple: bool,
        ignores_keys: bool,
        max_record_bytes: int,
        buffer_bytes: int,
        max_block_ms: int,
        takes_records: bool = True,
    ) -> None: ...
    def _detach(self) -> None: ...
    def _take_records(self, takes: bool) -> None: ...
    def _topic_known(self, ref: TopicRef) -> None: ...
    def _knows(self, topic: str, partition: int | None) -> bool: ...
    def _topic_forgotten(self, name: str) -> None: ...
    def _send_bytes(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None,
        headers: _Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: _OnDelivery | None,
        may_block: bool,
        waited_ms: int = 0,
    ) -> RecordFuture: ...
    def _begin_send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> AsyncRecordFuture | MemoryTurn | None: ...
    def _try_send_awaited(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> AsyncRecordFuture: ...
    def _continue_send(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None,
        headers: _Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: _OnDelivery | None,
        turn: MemoryTurn | None = None,
    ) -> RecordFuture | MemoryTurn | None: ...
    def _out_of_memory(self, waited_ms: float) -> BufferExhaustedError: ...
    def _failed(
        self,
        topic: str,
        partition: int | None,
        error: KafkaError,
        on_delivery: _OnDelivery | None,
    ) -> RecordFuture: ...
    def _too_large(self, topic: str, size: int) -> RecordTooLargeError: ...
