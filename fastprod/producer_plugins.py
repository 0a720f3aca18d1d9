"""ProducerPlugins: a producer's interceptors, serializers, partitioner and metric reporters."""

from __future__ import annotations

from typing import Any

from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError
from fastprod.interceptors import ProducerInterceptors
from fastprod.metrics_reporter import MetricsReporters
from fastprod.partitioner import BoundPartitioner
from fastprod.plugin_loading import close_each
from fastprod.records import Headers, ProducerRecord
from fastprod.serializers import BoundSerializer, close_serializers

_NO_HEADERS = Headers()  # for serializers that look at none
_NO_HEADERS.freeze()


class ProducerPlugins:
    """What users plug into one producer: made once, kept by the child of a fork.

    Attributes:
        interceptors: the chain; None: there are none.
        reporters: None: there are none.
        partitioner: None: the built-in one.
        see_records: whether any of them has to do with the single record, closed or not.
        only_serialize: whether serializers are all of those.
        is_closed: whether `close` came to its end.
    """

    def __init__(self) -> None:
        self.interceptors: ProducerInterceptors | None = None
        self.reporters: MetricsReporters | None = None
        self.partitioner: BoundPartitioner | None = None
        self.see_records = self.only_serialize = False
        self.is_closed = self._need_headers = False
        self._serializers: list[BoundSerializer] = []
        self._key_serializer: BoundSerializer | None = None
        self._value_serializer: BoundSerializer | None = None

    def make(self, config: ProducerConfig) -> None:
        """Make and configure what the settings name.

        Raises:
            ConfigError: one could not be made; `close` closes those before it.
        """
        alone = (config.partitioner_class, config.key_serializer, config.value_serializer)
        has_lists = config.interceptor_classes or config.metric_reporters
        if not has_lists and all(each is None for each in alone):
            return  # spelling all values takes a tenth of the time of a constructor
        values = config.values()
        if config.interceptor_classes:
            self.interceptors = ProducerInterceptors(config.interceptor_classes, values)
        if config.metric_reporters:
            self.reporters = MetricsReporters(config.metric_reporters, values)
        if config.partitioner_class is not None:
            self.partitioner = BoundPartitioner(config.partitioner_class, values)
        for given, is_key in ((config.key_serializer, True), (config.value_serializer, False)):
            if given is not None:
                self._serializers.append(BoundSerializer(given, values, is_key=is_key))
        self._key_serializer = next((s for s in self._serializers if s.field == "key"), None)
        self._value_serializer = next((s for s in self._serializers if s.field == "value"), None)
        self._need_headers = any(each.needs_headers for each in self._serializers)
        found = (self.interceptors, self.partitioner, *self._serializers)
        self.see_records = any(each is not None for each in found)
        self.only_serialize = all(each is None for each in found[:2]) and self.see_records

    def serialize(self, record: ProducerRecord) -> tuple[Any, Any]:
        """The record's key and value as bytes.

        Raises:
            SerializationError: a serializer does not take one of them.
        """
        key, value = record.key, record.value
        if self._key_serializer is not None:
            key = self._key_serializer(record.topic, record.headers, key)
        if self._value_serializer is not None:
            value = self._value_serializer(record.topic, record.headers, value)
        return key, value

    def serialize_fields(
        self, topic: str, value: Any, key: Any, headers: Any
    ) -> tuple[Any, Any, Any]:
        """Value, key and headers as the engine takes them, of a record that there is no object for.

        Raises:
            SerializationError: a serializer does not take one of them.
            TypeError: headers that a serializer is to see are none.
        """
        seen = Headers(headers) if self._need_headers else _NO_HEADERS
        if self._key_serializer is not None:
            key = self._key_serializer(topic, seen, key)
        if self._value_serializer is not None:
            value = self._value_serializer(topic, seen, value)
        if seen is _NO_HEADERS:
            return value, key, headers
        seen.freeze()  # P-A.3.6
        return value, key, seen.to_list()

    def close(self, *, quietly: bool) -> None:
        """Close each, whatever the others raise; each is closed once.

        Raises:
            KafkaError: one raised an error, unless it is to be done `quietly`.
            KeyboardInterrupt: Ctrl-C came meanwhile.
        """
        plugins = [self.interceptors, self.reporters, self.partitioner]
        closes = [each.close for each in plugins if each is not None]
        error = close_each([*closes, lambda: close_serializers(*self._serializers)])
        self.is_closed = True
        if error is not None and not isinstance(error, Exception):
            raise error  # Ctrl-C
        if error is not None and not quietly:
            raise KafkaError("Failed to close kafka producer") from error
