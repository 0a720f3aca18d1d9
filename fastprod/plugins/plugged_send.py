"""PluggedSend: one record on its way through a producer's plug-ins."""

from __future__ import annotations

from typing import Any

from fastprod.client.metadata.cluster import Cluster
from fastprod.plugins.acknowledgement import Acknowledgement
from fastprod.producer_plugins import ProducerPlugins
from fastprod.records import ProducerRecord, TopicPartition

RecordFields = tuple[str, Any, Any, Any, int | None, int | None]
"""Topic, value, key, headers, partition, timestamp in ms: what `ProducerBase` takes."""


class PluggedSend:
    """Interceptors, then serializers, then the partitioner (P-A.3); metadata comes between.

    Making it tells the interceptors' `on_send`. Whoever sends calls `failed` with whatever is
    raised, and `end` in any case.

    Args:
        plugins: the producer's.
        record: what `send` was given.
        on_delivery: the caller's callback, or None.

    Attributes:
        record: what the interceptors made of it.
        on_delivery: the callback that is told to the engine.
        partition: the record's, or what the partitioner chose; None: neither.

    Raises:
        TypeError: `on_delivery` cannot be called.
    """

    def __init__(self, plugins: ProducerPlugins, record: ProducerRecord, on_delivery: Any) -> None:
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be callable, not {type(on_delivery).__name__}")
        self._plugins = plugins
        self.record, self.on_delivery = record, on_delivery
        if plugins.interceptors is not None:
            self.record = plugins.interceptors.on_send(record)
            self.on_delivery = Acknowledgement(
                plugins.interceptors, on_delivery, self.record.headers
            )
        self.partition = self.record.partition

    def fields(self, cluster: Cluster) -> RecordFields:
        """What the engine is given.

        Args:
            cluster: knows the topic.

        Raises:
            SerializationError: a serializer does not take the key or the value.
        """
        record, partitioner = self.record, self._plugins.partitioner
        key, value = self._plugins.serialize(record)
        if self.partition is None and partitioner is not None:
            self.partition = partitioner.partition(
                record.topic, record.key, key, record.value, value, cluster
            )
        topic, _, _, headers, _, timestamp_ms = record_fields(record)
        return topic, value, key, headers, self.partition, timestamp_ms

    def failed(self, error: BaseException) -> None:
        """It was raised instead of a future: the interceptors hear of it."""
        if self._plugins.interceptors is not None:
            topic, partition = self.record.topic, self.partition
            where = None if partition is None else TopicPartition(topic, partition)
            self._plugins.interceptors.on_send_error(self.record, where, error)

    def end(self) -> None:
        """The call that sends is over: what comes now comes from the delivery thread."""
        if isinstance(self.on_delivery, Acknowledgement):
            self.on_delivery.is_in_send = False


def as_record(
    topic: Any, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
) -> ProducerRecord:
    """The record that `send` was given, in one piece or in several.

    Raises:
        TypeError: `topic` is neither a name nor a record.
    """
    if isinstance(topic, ProducerRecord):
        return topic
    if isinstance(topic, str):
        return ProducerRecord(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
    raise TypeError(f"send() takes a topic name or a ProducerRecord, not {type(topic).__name__}")


def record_fields(record: ProducerRecord) -> RecordFields:
    """What the engine is given of a record as it is."""
    record.headers.freeze()  # P-A.3.6
    return (
        record.topic,
        record.value,
        record.key,
        record.headers.to_list(),
        record.partition,
        record.timestamp_ms,
    )
