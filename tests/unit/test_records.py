"""fastprod.records: checks, equality, headers and metadata."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from fastprod.errors import IllegalStateError
from fastprod.records import (
    Headers,
    Node,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    failed_metadata,
)


class Index:
    """An integer that is no int, as numpy's are."""

    def __index__(self) -> int:
        return 7


def test_a_record_needs_only_a_topic() -> None:
    """P-A.2.1."""
    record = ProducerRecord("orders")
    assert (record.topic, record.value, record.key) == ("orders", None, None)
    assert (record.partition, record.timestamp_ms, len(record.headers)) == (None, None, 0)


@pytest.mark.parametrize("topic", [None, b"orders", 5])
def test_a_topic_that_is_no_str_is_refused(topic: Any) -> None:
    """P-A.2.1."""
    with pytest.raises(TypeError, match="topic must be a str"):
        ProducerRecord(topic)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"partition": -1}, ValueError, "partition must be 0..2,147,483,647 or None, not -1"),
        ({"partition": 2**31}, ValueError, "not 2,147,483,648"),
        ({"partition": "1"}, TypeError, "partition must be an int or None, not str"),
        ({"partition": True}, TypeError, "not a bool"),
        ({"timestamp_ms": -1}, ValueError, "timestamp_ms must be 0.."),
        ({"timestamp_ms": 2**63}, ValueError, "timestamp_ms must be 0.."),
        ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms must be an int or None, not float"),
    ],
)
def test_partition_and_timestamp_are_checked(
    fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    """P-A.2.1."""
    with pytest.raises(error, match=text):
        ProducerRecord("t", **fields)


def test_edges_of_the_ranges_are_allowed() -> None:
    record = ProducerRecord("t", partition=2**31 - 1, timestamp_ms=0)
    assert (record.partition, record.timestamp_ms) == (2**31 - 1, 0)
    assert ProducerRecord("t", partition=0, timestamp_ms=2**63 - 1).timestamp_ms == 2**63 - 1


def test_integers_of_other_types_become_ints() -> None:
    number: Any = Index()
    assert type(ProducerRecord("t", partition=number).partition) is int


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "u"},
        {"value": b"w"},
        {"key": None},
        {"headers": [("a", b"2")]},
        {"partition": 2},
        {"timestamp_ms": 6},
    ],
)
def test_equality_is_over_all_fields(change: dict[str, Any]) -> None:
    """P-A.2.1."""
    record = ProducerRecord("t", b"v", b"k", headers=[("a", b"1")], partition=1, timestamp_ms=5)
    twin = ProducerRecord("t", b"v", b"k", headers=[("a", b"1")], partition=1, timestamp_ms=5)
    assert record == twin
    assert dataclasses.replace(record, **change) != record


def test_a_record_cannot_be_changed_in_place() -> None:
    record: Any = ProducerRecord("t")
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.topic = "u"


def test_a_copy_of_a_sent_record_has_headers_that_can_be_changed() -> None:
    record = ProducerRecord("t", headers={"a": b"1"})
    record.headers.freeze()
    twin = dataclasses.replace(record, topic="u")
    twin.headers.add("b", None)
    assert twin.headers.to_list() == [("a", b"1"), ("b", None)]
    assert record.headers.to_list() == [("a", b"1")]


def test_records_and_metadata_pickle() -> None:
    record = ProducerRecord("t", b"v", b"k", headers=[("a", None)], partition=1, timestamp_ms=5)
    assert pickle.loads(pickle.dumps(record)) == record
    assert copy.deepcopy(record) == record
    metadata = RecordMetadata("t", 1, 2, 3, 4, 5)
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_headers_keep_order_and_duplicates() -> None:
    """P-A.2.2."""
    headers = Headers([("a", b"1"), ("b", None)])
    headers.add("a", b"2")
    assert list(headers) == [("a", b"1"), ("b", None), ("a", b"2")]
    assert headers.all("a") == [b"1", b"2"]
    assert headers.last("a") == b"2"
    assert headers.last("b") is None
    assert "b" in headers
    assert len(headers) == 3


def test_removing_a_header_removes_all_of_its_name() -> None:
    headers = Headers([("a", b"1"), ("b", b"2"), ("a", b"3")])
    assert headers.remove("a") == 2
    assert headers.remove("a") == 0
    assert headers == Headers([("b", b"2")])
    with pytest.raises(KeyError):
        headers.last("a")


def test_headers_may_be_appended_to_and_replaced() -> None:
    headers = Headers([("a", b"1")])
    headers.append(("b", None))
    assert headers.to_list() == [("a", b"1"), ("b", None)]
    headers._replace([("c", b"3")])
    assert headers.to_list() == [("c", b"3")]
    with pytest.raises(TypeError, match=r"must be a .name, value. pair"):
        headers.append("name")  # type: ignore[arg-type]


def test_headers_are_read_only_once_frozen() -> None:
    """P-A.2.2, P-L.19."""
    headers = Headers([("a", b"1")])
    assert not headers.is_frozen
    headers.freeze()
    headers.freeze()
    with pytest.raises(IllegalStateError, match="cannot add header 'b'"):
        headers.add("b", b"2")
    with pytest.raises(IllegalStateError, match="cannot remove header 'a'"):
        headers.remove("a")
    with pytest.raises(IllegalStateError, match="cannot replace headers: the record was sent"):
        headers._replace([])
    headers._replace(headers.to_list())
    assert headers.is_frozen
    assert headers.to_list() == [("a", b"1")]


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([(None, b"1")], "name must be str, not NoneType"),
        ([(b"a", b"1")], "name must be str, not bytes"),
        ([("a", "1")], "value of header 'a' must be bytes or None, not str"),
        ([("a", 1)], "value of header 'a' must be bytes or None, not int"),
        ([("a",)], "must be a .name, value. pair"),
        ([5], "must be a .name, value. pair"),
        (5, "must be .name, value. pairs or a mapping, not int"),
    ],
)
def test_headers_of_wrong_types_are_refused(pairs: Any, text: str) -> None:
    """P-A.2.2."""
    with pytest.raises(TypeError, match=text):
        Headers(pairs)


def test_header_values_that_are_buffers_are_copied_to_bytes() -> None:
    buffer = bytearray(b"12")
    value: Any = buffer
    headers = Headers([("a", value), ("b", memoryview(b"xy")[1:])])  # type: ignore[list-item]
    buffer[0] = 0
    assert headers.to_list() == [("a", b"12"), ("b", b"y")]


def test_headers_taken_from_a_mapping_keep_its_order() -> None:
    assert Headers({"b": b"1", "a": None}).to_list() == [("b", b"1"), ("a", None)]


def test_headers_are_not_hashable_and_equal_only_headers() -> None:
    with pytest.raises(TypeError):
        hash(Headers())
    assert Headers([("a", b"1")]) != [("a", b"1")]
    assert repr(Headers([("a", b"1")])) == "Headers([('a', b'1')])"


def test_metadata_knows_what_it_does_not_know() -> None:
    """P-A.2.3."""
    known = RecordMetadata("t", 1, 0, 0, 3, 4)
    assert (known.has_offset, known.has_timestamp) == (True, True)
    assert known.topic_partition == TopicPartition("t", 1)
    unknown = RecordMetadata("t", 1)
    assert (unknown.has_offset, unknown.has_timestamp) == (False, False)
    assert (unknown.serialized_key_size, unknown.serialized_value_size) == (-1, -1)


def test_metadata_of_a_failure_holds_topic_and_partition_only() -> None:
    """P-A.2.5."""
    assert failed_metadata("t") == ("t", -1, -1, -1, -1, -1)
    assert failed_metadata("t", 0) == ("t", 0, -1, -1, -1, -1)


def test_places_print_as_kafka_writes_them() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert str(Node(1, "kafka", 9092)) == "kafka:9092 (id 1)"
    assert str(Node(1, "::1", 9092, "r1")) == "[::1]:9092 (id 1, rack r1)"


def test_a_partition_may_have_no_leader() -> None:
    info = PartitionInfo("t", 0, None, (Node(1, "a", 1),))
    assert info.leader is None
    assert info.offline_replicas == ()
