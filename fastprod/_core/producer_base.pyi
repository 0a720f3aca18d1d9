"""What Python sees of `producer_base`; see producer_base.pxd for the native half."""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Buffer

from fastprod._core.engine import Engine, TopicRef
from fastprod._core.future import RecordFuture
from fastprod.errors import KafkaError, RecordTooLargeError
from fastprod.records import Headers, ProducerRecord, RecordMetadata

_Headers = Headers | Sequence[tuple[str, Buffer | None]] | dict[str, Buffer | None]
_OnDelivery = Callable[[RecordMetadata, KafkaError | None], object]

class ProducerBase:
    """The part of `KafkaProducer` that every record passes; not for use by itself.

    A subclass gives it an engine with `_attach` and has these methods, which the compiled code
    calls: `_not_open()`, raises or makes it open again; `_await_topic(topic, partition,
    timeout_ms)`, waits until the engine knows them; `_await_topics(wanted, timeout_ms)`, the same
    for several, and returns what that would raise; `_start_delivery()`, before the first callback;
    `_count_error(topic)`; `_send_record(...)`, takes a send that has plug-ins or a
    `ProducerRecord`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def closed(self) -> bool:
        """Whether the producer takes no records: closed, failed for good, or a child's copy."""
    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: _OnDelivery | None = None,
    ) -> RecordFuture:
        """Queue one record and return at once with a future for its delivery.

        The bytes are copied before this returns, so the caller may reuse its buffers. Nothing is
        sent from here: the I/O thread sends when the batch is due.

        Args:
            topic: topic name, 1..249 characters; or a `ProducerRecord`, and of the rest only
                `on_delivery`.
            value: payload: bytes, another contiguous buffer, or what value_serializer takes; None
                is a tombstone on a compacted topic.
            key: chooses the partition by murmur2 unless `partition` or partitioner_ignore_keys
                does; as `value`. None leaves the choice to the partitioner.
            headers: (name, value) pairs or a dict; order kept, a name may occur again.
            partition: 0-based partition, overrides `key`.
            timestamp_ms: ms since the Unix epoch, UTC, 0 or more; None: now.
            on_delivery: called once with (metadata, None) or (metadata, error), on the delivery
                thread; what it raises is logged. If the record failed before it had a batch it is
                called here and now.

        Returns:
            A future; ``result(timeout)`` gives the `RecordMetadata`. It carries what went wrong
            with the record itself: unknown topic, no memory in time, too large, the broker's
            errors.

        Raises:
            ProducerClosedError: `close` was called, perhaps while this waited.
            SerializationError: a serializer does not take the key or the value.
            TypeError: the value, the key or a header is neither bytes-like nor None.
            ValueError: `partition` or `timestamp_ms` is out of range.
            KafkaError: the producer has failed for good, and why.

        Blocks: up to max_block_ms, for a new topic's metadata and for memory together; Ctrl-C
        gets through. Memory is what brokers have not acknowledged, and what delivery callbacks
        have not been told. Inside one it is the former only, for nobody else would run them; once
        buffer_memory waits twice over for callbacks, the future has failed already.
        Threads: any, concurrently; also inside `on_delivery`.
        Source: KafkaProducer.send; contract A.3.
        """
    def try_send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: _Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: _OnDelivery | None = None,
    ) -> RecordFuture:
        """Queue one record if that needs no waiting: `send` with max_block_ms = 0.

        Where `send` would wait, the future has failed already: with MetadataTimeoutError for a
        topic that is not known yet (it is asked for, and `warmup` waits for it), with
        BufferExhaustedError if buffer_memory is full, be it that callbacks are slow.

        Args, returns and raises as `send`.  Never blocks.  Threads: any.
        """
    # What KafkaProducer uses.
    @property
    def _engine(self) -> Engine:
        """The engine of `_attach`."""
    def _attach(
        self,
        engine: Engine,
        *,
        is_simple: bool,
        ignores_keys: bool,
        max_record_bytes: int,
        buffer_bytes: int,
        max_block_ms: int,
    ) -> None:
        """Start taking records into `engine`; also after a fork, with a new one.

        Args:
            engine: the native side.
            is_simple: no interceptor, serializer or partitioner is configured: `send` need not
                call `_send_record`.
            ignores_keys: a key does not choose the partition.
            max_record_bytes: upper bound of one record.
            buffer_bytes: the pool's size, for errors.
            max_block_ms: how long one send may wait.
        """
    def _detach(self) -> None:
        """Take no more records: the next send calls `_not_open`."""
    def _topic_known(self, ref: TopicRef) -> None:
        """Metadata of the topic is there: sends need not look it up."""
    def _knows(self, topic: str, partition: int | None) -> bool:
        """Whether a send to the topic, and partition, need not wait for metadata."""

    def _topic_forgotten(self, name: str) -> None:
        """The topic left the metadata: the next send waits for it again."""
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
    ) -> RecordFuture:
        """`send` for a record that interceptors, serializers and the partitioner have seen.

        Args:
            may_block: False: as `try_send`.
            waited_ms: what the metadata has taken of max_block_ms already.

        The rest, returns and raises as `send`.  Blocks: as `send`.
        """
    def _failed(
        self,
        topic: str,
        partition: int | None,
        error: KafkaError,
        on_delivery: _OnDelivery | None,
    ) -> RecordFuture:
        """Return a future that carries `error`, after calling `on_delivery` (A.3.12, row 1)."""
    def _too_large(self, topic: str, size: int) -> RecordTooLargeError:
        """Return the error of A.3.7 for a record of up to `size` bytes."""
