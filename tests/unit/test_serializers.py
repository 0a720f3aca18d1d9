"""fastprod.serializers: the built-in ones against struct and Java's layouts, and the binding."""

from __future__ import annotations

import importlib
import json
import struct
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError, SerializationError
from fastprod.records import Headers
from fastprod.serializers import (
    BoundSerializer,
    BytesSerializer,
    Float32Serializer,
    Float64Serializer,
    Int16Serializer,
    Int32Serializer,
    Int64Serializer,
    Serializer,
    StringSerializer,
    UUIDSerializer,
    VoidSerializer,
    close_serializers,
)

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Recording(Serializer):
    """Counts what happens to it."""

    def __init__(self) -> None:
        self.configured: list[tuple[Any, bool]] = []
        self.closed_count = 0

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        self.configured.append((config["client.id"], is_key))

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        headers.add("via", topic.encode())
        return str(data).encode()

    def close(self) -> None:
        self.closed_count += 1


class Old:
    """kafka-python's shape."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes:
        return f"{topic}:{data}".encode()


class Older:
    """kafka-python's shape before 3.0."""

    def serialize(self, topic: str, data: Any) -> bytes:
        return f"{topic}={data}".encode()


class Broken(Serializer):
    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        raise RuntimeError("no registry")


def bound(given: Any, is_key: bool = False, **settings: Any) -> BoundSerializer:
    config = ProducerConfig(bootstrap_servers="h:1", **settings)
    return BoundSerializer(given, config.values(), is_key=is_key)


def serialized(given: Any, data: Any) -> bytes | None:
    return bound(given)("orders", Headers(), data)


@pytest.mark.parametrize(
    ("serializer", "data", "expected"),
    [
        (BytesSerializer(), b"ab", b"ab"),
        (BytesSerializer(), b"", b""),
        (BytesSerializer(), bytearray(b"ab"), b"ab"),
        (BytesSerializer(), memoryview(b"abc")[1:], b"bc"),
        (StringSerializer(), "h\u00e9", b"h\xc3\xa9"),
        (StringSerializer(), "", b""),
        (StringSerializer("latin-1"), "h\u00e9", b"h\xe9"),
        (Int16Serializer(), -2, struct.pack(">h", -2)),
        (Int16Serializer(), 2**15 - 1, b"\x7f\xff"),
        (Int16Serializer(), -(2**15), b"\x80\x00"),
        (Int32Serializer(), 2**31 - 1, struct.pack(">i", 2**31 - 1)),
        (Int32Serializer(), -1, b"\xff\xff\xff\xff"),
        (Int64Serializer(), -(2**63), struct.pack(">q", -(2**63))),
        (Int64Serializer(), 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
        (Float32Serializer(), 1.5, struct.pack(">f", 1.5)),
        (Float32Serializer(), 2, struct.pack(">f", 2.0)),
        (Float64Serializer(), -0.1, struct.pack(">d", -0.1)),
        (Float64Serializer(), float("inf"), struct.pack(">d", float("inf"))),
        (UUIDSerializer(), ID, b"12345678-1234-5678-1234-567812345678"),
    ],
)
def test_built_in_serializers_write_javas_bytes(
    serializer: Serializer, data: Any, expected: bytes
) -> None:
    """P-C.2.1."""
    assert serializer("t", Headers(), data) == expected
    assert type(serializer("t", Headers(), data)) is bytes


@pytest.mark.parametrize(
    "kind",
    [
        BytesSerializer,
        StringSerializer,
        Int16Serializer,
        Int32Serializer,
        Int64Serializer,
        Float32Serializer,
        Float64Serializer,
        UUIDSerializer,
        VoidSerializer,
    ],
)
def test_every_built_in_serializer_keeps_none_and_refuses_strange_types(
    kind: type[Serializer],
) -> None:
    """P-C.2.1."""
    assert kind()("t", Headers(), None) is None
    with pytest.raises(SerializationError, match=f"{kind.__name__} takes .*, not complex"):
        kind()("t", Headers(), 1j)


@pytest.mark.parametrize(
    ("serializer", "data", "text"),
    [
        (BytesSerializer(), "a", "not str; use StringSerializer, or encode it"),
        (StringSerializer(), b"a", "StringSerializer takes str or None, not bytes"),
        (StringSerializer("ascii"), "a\u00e9", "cannot write character 1 of the text in ascii"),
        (StringSerializer(), "\ud800", "cannot write character 0"),
        (UUIDSerializer(), str(ID), "UUIDSerializer takes uuid.UUID or None, not str"),
        (Int16Serializer(), 2**15, "takes -32,768..32,767, not 32,768"),
        (Int32Serializer(), -(2**31) - 1, "not -2,147,483,649"),
        (Int64Serializer(), 2**63, "use a wider one"),
        (Int32Serializer(), True, "takes int or None, not bool"),
        (Int32Serializer(), 1.0, "takes int or None, not float"),
        (Int32Serializer(), "1", "takes int or None, not str"),
        (Float32Serializer(), 1e39, "cannot hold 1e.39"),
        (Float64Serializer(), "1.0", "takes float or None, not str"),
        (Float64Serializer(), True, "takes float or None, not bool"),
        (VoidSerializer(), b"", "VoidSerializer takes None, not bytes"),
    ],
)
def test_built_in_serializers_say_what_they_cannot_take(
    serializer: Serializer, data: Any, text: str
) -> None:
    with pytest.raises(SerializationError, match=text):
        serializer("t", Headers(), data)


@pytest.mark.parametrize(
    ("settings", "is_key", "expected"),
    [
        ({}, True, "utf-8"),
        ({"key_serializer_encoding": "latin-1"}, True, "iso8859-1"),
        ({"key_serializer_encoding": "latin-1"}, False, "utf-8"),
        ({"value.serializer.encoding": "ascii", "serializer_encoding": "latin-1"}, False, "ascii"),
        ({"serializer_encoding": "latin-1"}, False, "iso8859-1"),
    ],
)
def test_a_string_serializer_takes_its_encoding_from_the_settings(
    settings: dict[str, Any], is_key: bool, expected: str
) -> None:
    """P-C.2.1."""
    assert bound(StringSerializer, is_key, **settings).target.encoding == expected


@pytest.mark.parametrize("encoding", ["no-such-encoding", "hex"])
def test_an_unknown_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(ConfigError, match=encoding):
        StringSerializer(encoding)


def test_a_class_is_made_and_configured_and_an_object_is_not() -> None:
    """P-A.1.1; P-A.1.2: the generated client.id is among the settings."""
    made = bound(Recording, is_key=True).target
    assert made.configured == [(made.configured[0][0], True)]
    assert made.configured[0][0].startswith("producer-")
    own = Recording()
    assert bound(own).target is own
    assert own.configured == []


def test_a_path_in_the_settings_leads_to_a_class() -> None:
    config = ProducerConfig(
        bootstrap_servers="h:1", value_serializer="fastprod.serializers:Int16Serializer"
    )
    ready = BoundSerializer(config.value_serializer, config.values(), is_key=False)
    assert ready("t", Headers(), 1) == b"\x00\x01"


def test_serializers_may_add_headers() -> None:
    """P-A.2.2."""
    headers = Headers()
    assert bound(Recording())("orders", headers, 5) == b"5"
    assert headers.to_list() == [("via", b"orders")]


def appending(data: Any, context: Any) -> bytes:
    """As confluent-kafka's header_schema_id_serializer, and others of its kind."""
    if not isinstance(context.headers, list):
        raise TypeError("Invalid headers type")
    context.headers.append((f"__{context.field}_schema_id", b"\x01"))
    return str(data).encode()


class Appending:
    """As a serializer of kafka-python, to which headers are a list."""

    def serialize(self, topic: str, headers: Any, data: Any) -> bytes:
        headers.append(("via", topic.encode()))
        return str(data).encode()


@pytest.mark.parametrize(
    ("given", "added"),
    [(appending, ("__value_schema_id", b"\x01")), (Appending(), ("via", b"orders"))],
)
def test_other_clients_serializers_may_add_headers(given: Any, added: tuple[str, bytes]) -> None:
    headers = Headers([("a", b"1")])
    assert bound(given)("orders", headers, 5) == b"5"
    assert headers.to_list() == [("a", b"1"), added]


def test_what_a_context_has_for_a_header_must_be_one() -> None:
    def wrong(data: Any, context: Any) -> bytes:
        context.headers.append("schema")
        return b""

    with pytest.raises(SerializationError, match=r"must be a \(name, value\) pair"):
        bound(wrong)("orders", Headers(), 5)


def two(data: Any, context: Any) -> bytes:
    return f"{data}/{context.topic}/{context.field}/{len(context.headers)}".encode()


def refusing_none(data: Any, ctx: Any = None) -> bytes:
    """As confluent-kafka's schema serializers do."""
    if ctx is None:
        raise TypeError("SerializationContext is required")
    return two(data, ctx)


def three(topic: str, headers: Headers, data: Any) -> bytes:
    return f"{topic}/{len(headers)}/{data}".encode()


@pytest.mark.parametrize(
    ("given", "data", "expected"),
    [
        (None, b"v", b"v"),
        (Old(), 5, b"orders:5"),
        (Old, 5, b"orders:5"),
        (Older(), 5, b"orders=5"),
        (lambda v: json.dumps(v).encode(), {"a": 1}, b'{"a": 1}'),
        (lambda v: json.dumps(v).encode(), None, b"null"),
        (lambda v, codec="utf-8": v.encode(codec), "v", b"v"),
        (lambda v=None: b"x", 1, b"x"),
        (lambda *values: b"%d" % len(values), 1, b"1"),
        (str.encode, "v", b"v"),
        (bytes, [65, 66], b"AB"),
        (two, "v", b"v/orders/value/0"),
        (refusing_none, "v", b"v/orders/value/0"),
        (three, "v", b"orders/0/v"),
        (lambda v: bytearray(v), b"v", b"v"),
    ],
)
def test_many_shapes_of_serializers_are_accepted(
    given: Any, data: Any, expected: bytes | None
) -> None:
    result = serialized(given, data)
    assert result == expected
    assert type(result) is bytes


def test_confluents_serializers_are_accepted() -> None:
    theirs = importlib.import_module("confluent_kafka.serialization")
    assert serialized(theirs.StringSerializer("utf_8"), "v") == b"v"
    assert serialized(theirs.IntegerSerializer(), 1) == b"\x00\x00\x00\x01"


def test_confluents_schema_ids_may_be_in_the_headers() -> None:
    theirs = importlib.import_module("confluent_kafka.schema_registry")
    avro = importlib.import_module("confluent_kafka.schema_registry.avro")
    registry = theirs.SchemaRegistryClient.new_client({"url": "mock://"})
    serializer = avro.AvroSerializer(
        registry, '"string"', conf={"schema.id.serializer": theirs.header_schema_id_serializer}
    )
    headers = Headers()
    assert bound(serializer)("orders", headers, "v") == b"\x02v"
    assert [name for name, _ in headers] == ["__value_schema_id"]


@pytest.mark.parametrize("given", [lambda: b"", lambda a, b, c, d: b"", 5, "text"])
def test_what_cannot_be_called_as_a_serializer_is_refused_at_construction(given: Any) -> None:
    with pytest.raises(ConfigError, match="value_serializer"):
        bound(given)


def test_a_serializer_that_cannot_be_configured_is_refused_with_its_reason() -> None:
    with pytest.raises(ConfigError, match=r"key_serializer = Broken: .*no registry") as caught:
        bound(Broken, is_key=True)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("given", [str.encode, lambda v: v.encode(), lambda v: b"" + v])
def test_a_type_error_inside_becomes_a_serialization_error(given: Any) -> None:
    """P-A.3.4."""
    with pytest.raises(SerializationError, match="cannot take a int for topic 'orders'") as caught:
        serialized(given, 5)
    assert isinstance(caught.value.__cause__, TypeError | AttributeError)
    assert (caught.value.topic, vars(caught.value)["field"]) == ("orders", "value")


def test_other_errors_inside_pass_unchanged() -> None:
    """P-A.3.12, last row."""
    with pytest.raises(ZeroDivisionError):
        serialized(lambda v: v / 0, 5)


def test_a_result_that_is_no_bytes_is_refused() -> None:
    with pytest.raises(SerializationError, match="returned a str for topic 'orders'"):
        serialized(json.dumps, 5)


def test_each_serializer_is_closed_once() -> None:
    """P-C.2.2, P-L.9."""
    first, second = Recording(), Recording()
    key, value = bound(first, is_key=True), bound(second)
    close_serializers(key, value)
    close_serializers(key, value)
    assert (first.closed_count, second.closed_count) == (1, 1)


def test_an_object_that_serves_keys_and_values_is_closed_once() -> None:
    """P-C.2.2."""
    both = Recording()
    close_serializers(bound(both, is_key=True), bound(both))
    assert both.closed_count == 1


def test_a_close_that_fails_does_not_keep_the_other_open() -> None:
    """P-A.9.6."""

    class Failing(Recording):
        def close(self) -> None:
            super().close()
            raise RuntimeError("close failed")

    first, second = Failing(), Recording()
    with pytest.raises(RuntimeError, match="close failed"):
        close_serializers(bound(first, is_key=True), bound(second))
    assert (first.closed_count, second.closed_count) == (1, 1)


def test_functions_need_no_close() -> None:
    close_serializers(bound(str.encode), bound(None))
