"""PluggedSend: the order of the plug-ins, whoever sends (P-A.3); also what `send` was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fastprod import ProducerConfig, ProducerRecord
from fastprod.client.metadata.cluster import Cluster
from fastprod.interceptors import ProducerInterceptor
from fastprod.partitioner import Partitioner
from fastprod.plugins.plugged_send import PluggedSend, as_record, record_fields
from fastprod.producer_plugins import ProducerPlugins

calls: list[str] = []


class Noted(ProducerInterceptor, Partitioner):
    def configure(self, config: Mapping[str, Any]) -> None:
        calls.clear()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        calls.append("on_send")
        return ProducerRecord(record.topic, record.value, b"key")

    def on_acknowledgement(self, metadata: Any, exception: BaseException | None) -> None:
        calls.append(f"told {exception}")

    def partition(self, *arguments: Any) -> int:
        calls.append(f"partition of {arguments[2]!r}")
        return 2

    def close(self) -> None:
        pass


def serialize(value: str) -> bytes:
    calls.append("serialize")
    return value.encode()


def plugins() -> ProducerPlugins:
    made = ProducerPlugins()
    made.make(
        ProducerConfig(
            bootstrap_servers="localhost:1",
            interceptor_classes=[Noted],
            partitioner_class=Noted,
            value_serializer=serialize,
        )
    )
    return made


def test_interceptors_come_before_serializers_and_the_partitioner_last() -> None:
    send = PluggedSend(plugins(), ProducerRecord("t", "value"), None)
    assert calls == ["on_send"]
    assert send.fields(Cluster.empty()) == ("t", b"value", b"key", [], 2, None)
    send.end()
    assert calls == ["on_send", "serialize", "partition of b'key'"]


def test_a_failure_is_told_to_the_interceptors() -> None:
    send = PluggedSend(plugins(), ProducerRecord("t", "value"), None)
    send.failed(ValueError("no"))
    send.end()
    assert calls == ["on_send", "told no"]


def test_a_callback_can_be_called() -> None:
    with pytest.raises(TypeError, match="on_delivery must be callable"):
        PluggedSend(ProducerPlugins(), ProducerRecord("t"), 5)


def test_a_record_comes_in_one_piece_or_in_several() -> None:
    record = ProducerRecord("t", b"v", b"k", headers=[("h", b"1")], partition=1, timestamp_ms=5)
    assert as_record(record, None, None, None, None, None) is record
    same = as_record("t", b"v", b"k", [("h", b"1")], 1, 5)
    assert record_fields(same) == record_fields(record) == ("t", b"v", b"k", [("h", b"1")], 1, 5)
    with pytest.raises(TypeError, match="not int"):
        as_record(5, None, None, None, None, None)
