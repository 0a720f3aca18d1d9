"""Interceptors: users' code around every record; it can never break sending (P-C.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastprod.log import Log
from fastprod.plugin_loading import configure_plugin, make_plugin, plugin_name, takes
from fastprod.records import (
    Headers,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    failed_metadata,
)

_log = Log(__name__)

Acknowledge = Callable[[RecordMetadata | None, BaseException | None, Headers], None]


class ProducerInterceptor:
    """Base of users' interceptors; every method may be left out.

    An interceptor need not extend this class: any object with some of its methods is accepted.

    Threads: `on_send` is called in the threads that send, several at a time; `on_acknowledgement`
    usually on the delivery thread, where it holds up other callbacks while it blocks.
    Source: ProducerInterceptor (KIP-42, KIP-512); contract P-C.1.
    """

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take what it needs from the settings. Called once, before anything else.

        Args:
            config: the producer's settings by their dotted names; client.id is set.

        What this raises ends the producer's constructor with a ConfigError.
        """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send, this one or another.

        Called in the thread that sends, before serialization. What it raises is logged, and the
        record goes on as it was.

        Args:
            record: what `send` was called with, or what the interceptor before this one returned.
        """
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, exception: BaseException | None
    ) -> None:
        """See the outcome of one record; what it raises is logged.

        Called on the delivery thread, or in the thread that sends if `send` itself failed.  Define
        a third parameter, `headers`, to get the record's headers, read-only (KIP-512).

        Args:
            metadata: where the record went; after a failure topic and perhaps partition only; None
                if not even the topic is known.
            exception: why it failed, or None.
        """

    def close(self) -> None:
        """Give back what it holds; called once, when the producer closes."""


class ProducerInterceptors:
    """The chain of a producer's interceptors, in the order of the setting.

    Args:
        given: classes, made here, or objects; each is configured if it has `configure`.
        config: the settings by dotted name.

    Raises:
        ConfigError: one could not be made or configured; those before it have been closed
        (P-C.1.5).

    Threads: any; it keeps no state.  Source: ProducerInterceptors.
    """

    __slots__ = ("_acknowledges", "_interceptors", "_on_sends")

    def __init__(self, given: Iterable[Any], config: Mapping[str, Any]) -> None:
        self._interceptors: list[Any] = []
        try:
            for each in given:
                self._interceptors.append(_ready(each, config))
            self._on_sends = [
                (plugin_name(each), each.on_send)
                for each in self._interceptors
                if callable(getattr(each, "on_send", None))
            ]
            self._acknowledges = [
                (plugin_name(each), _acknowledge(each.on_acknowledgement))
                for each in self._interceptors
                if callable(getattr(each, "on_acknowledgement", None))
            ]
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._interceptors)

    @property
    def see_sends(self) -> bool:
        """Whether one has `on_send`, which may change records, also their topic."""
        return bool(self._on_sends)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass the record through the chain (P-C.1.1); never raises."""
        for name, on_send in self._on_sends:
            try:
                changed = on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(
                        f"on_send must return a ProducerRecord, not {type(changed).__name__}"
                    )
            except Exception:
                _log.warning(
                    "interceptor %s failed in on_send for topic %s; the record goes on as it was",
                    name,
                    record.topic,
                    exc_info=True,
                )
            else:
                record = changed
        return record

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        exception: BaseException | None,
        headers: Headers | None = None,
    ) -> None:
        """Tell the chain the outcome of one record (P-C.1.2); never raises.

        Args:
            metadata: where the record went.
            exception: why it failed, or None.
            headers: the record's headers; frozen here.  None stands for no headers.
        """
        if headers is None:
            headers = Headers()
        headers.freeze()
        for name, acknowledge in self._acknowledges:
            try:
                acknowledge(metadata, exception, headers)
            except Exception:
                _log.warning("interceptor %s failed in on_acknowledgement", name, exc_info=True)

    def on_send_error(
        self,
        record: ProducerRecord | None,
        topic_partition: TopicPartition | None,
        exception: BaseException,
    ) -> None:
        """Tell the chain that `send` itself failed (P-C.1.3); never raises.

        Args:
            record: the record as the chain left it; None if there is none.
            topic_partition: where it was to go, if a partition had been chosen.
            exception: why it failed.
        """
        if topic_partition is not None:
            metadata = failed_metadata(topic_partition.topic, topic_partition.partition)
        elif record is not None:
            metadata = failed_metadata(record.topic, record.partition)
        else:
            metadata = None
        self.on_acknowledgement(metadata, exception, None if record is None else record.headers)

    def close(self) -> None:
        """Close every interceptor; what one raises is logged.  A second call does nothing."""
        closing, self._interceptors = self._interceptors, []
        for each in closing:
            try:
                close = getattr(each, "close", None)
                if callable(close):
                    close()
            except Exception:
                _log.warning("interceptor %s failed in close", plugin_name(each), exc_info=True)


def _ready(given: Any, config: Mapping[str, Any]) -> Any:
    if isinstance(given, type):
        return make_plugin("interceptor_classes", given, config)
    configure_plugin("interceptor_classes", given, config)
    return given


def _acknowledge(function: Callable[..., None]) -> Acknowledge:
    """Bring the form with two arguments and the one with three (P-C.1.4) to one."""
    if takes(function, 3):
        return function
    return lambda metadata, exception, headers: function(metadata, exception)
