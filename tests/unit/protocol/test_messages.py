"""fastprod.protocol.messages against kafka-python, and cut short: B-B1, B-B1.2, B-A7, B-D5."""

from __future__ import annotations

import importlib
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kafka.protocol.schemas import load_json

from fastprod.protocol import schema
from fastprod.protocol.api_keys import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from fastprod.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from fastprod.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from fastprod.protocol.messages.metadata import MetadataRequest
from fastprod.protocol.schema import Array, Field, FieldType, SchemaError, Struct, fields_of
from support.oracle.message_samples import APIS, CASES, Case, present, sample

PACKAGES = ("producer", "consumer", "metadata", "admin", "sasl")
TYPES = {
    "bool": schema.BOOL,
    "float64": schema.FLOAT64,
    "int8": schema.INT8,
    "int16": schema.INT16,
    "int32": schema.INT32,
    "int64": schema.INT64,
    "uuid": schema.UUID,
    "string": schema.STRING,
    "bytes": schema.BYTES,
    "records": schema.RECORDS,
}
EMPTY = {"records": None, "bytes": b"", "uuid": bytes(16), "string": "", "bool": False}
# kafka-python gives some fields names of its own.
RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
}
# A version so high that the table says "and all later ones".
# In Kafka a request and its response each have a struct of this name.
STRUCTS = {"EntryResult": "EntryData"}
LATER = 0x7FFF
NEWEST = {(case.api_key, case.direction): case for case in CASES}
OLDEST = {(case.api_key, case.direction): case for case in reversed(CASES)}
# Of these it knows nothing; kio does.
NOT_IN_KAFKA_PYTHON = {CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE}
KNOWN_CASES = [case for case in CASES if case.api_key not in NOT_IN_KAFKA_PYTHON]
MESSAGES = sorted({(case.api_key, case.direction) for case in KNOWN_CASES})


def kafka_class(api_key: int, direction: str) -> Any:
    """kafka-python's class of a message, made from Kafka's own definition."""
    name = f"{APIS[api_key].name}{direction.capitalize()}"
    for package in PACKAGES:
        found = getattr(importlib.import_module(f"kafka.protocol.{package}"), name, None)
        if found is not None:
            return found
    raise LookupError(name)


def plain(value: Any) -> Any:
    """A value of kafka-python in the terms of ours."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, set):
        # Authorized operations, as the numbers of their bits.
        return sum(1 << bit for bit in value)
    return value


def assert_same(kind: type, version: int, ours: Any, theirs: Any) -> None:
    for row in fields_of(kind):
        if present(row, version):
            value = getattr(theirs, RENAMED.get(row.name, row.name))
            assert_same_value(row.type, version, getattr(ours, row.name), value)


def assert_same_value(kind: FieldType, version: int, ours: Any, theirs: Any) -> None:
    if ours is None:
        assert theirs is None
    elif isinstance(kind, Array):
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same_value(kind.item, version, our_item, their_item)
    elif isinstance(kind, Struct):
        assert_same(kind.kind, version, ours, theirs)
    else:
        assert ours == plain(theirs)


@pytest.mark.parametrize("case", KNOWN_CASES, ids=str)
def test_kafka_python_and_the_broker_read_each_other(case: Case) -> None:
    """B-B1: a second opinion, next to kio's."""
    ours = sample(case)
    kind = kafka_class(case.api_key, case.direction)
    if case.schema.kind is ApiVersionsResponse:
        # With an error in it, kafka-python reads version 0 (B-A7.2).
        ours.error_code = 0
    theirs = kind.decode(case.encoded(ours), version=case.version)
    assert_same(case.schema.kind, case.version, ours, theirs)
    theirs.with_header()
    assert case.decoded(bytes(theirs.encode())) == ours


def rows_of_kafka(definition: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a definition that the table must have: those of versions that we write."""
    newest = {case.api_key: case.version for case in CASES}[definition["apiKey"]]
    oldest = min(c.version for c in CASES if c.api_key == definition["apiKey"])
    yield from _rows(definition["fields"], oldest, newest)


def _rows(fields: list[dict[str, Any]], oldest: int, newest: int) -> Iterator[dict[str, Any]]:
    for row in fields:
        first, last = versions(row["versions"])
        if first <= newest and last >= oldest:
            yield row | {"fields": list(_rows(row.get("fields", []), oldest, newest))}


def versions(text: str) -> tuple[int, int]:
    first, _, last = text.removesuffix("+").partition("-")
    return int(first), LATER if text.endswith("+") else int(last or first)


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


def kafka_default(row: dict[str, Any]) -> Any:
    kind, text = row["type"], row.get("default")
    if kind.startswith("[]"):
        return None if text == "null" else []
    if text == "null":
        return None
    if text is None:
        return EMPTY.get(kind, 0)
    if kind in ("string", "records"):
        return text
    return text == "true" if kind == "bool" else int(str(text), 0)


def assert_row(ours: Field, theirs: dict[str, Any]) -> None:
    assert ours.name == snake(theirs["name"])
    assert (ours.first, ours.last) == versions(theirs["versions"])
    assert ours.tag == theirs.get("tag")
    if ours.tag is not None:
        assert theirs["taggedVersions"] == theirs["versions"]
    kind = theirs["type"].removeprefix("[]")
    ours_type = ours.type.item if isinstance(ours.type, Array) else ours.type
    assert isinstance(ours.type, Array) == theirs["type"].startswith("[]")
    if isinstance(ours_type, Struct):
        name = ours_type.kind.__name__
        assert STRUCTS.get(name, name) == kind
        for row, kafka_row in zip(fields_of(ours_type.kind), theirs["fields"], strict=True):
            assert_row(row, kafka_row)
    else:
        assert ours_type is TYPES[kind]
    if not isinstance(ours.type, Struct):
        default = ours.default()
        assert (list(default) if default == () else default) == kafka_default(theirs)
    nulls = versions(theirs["nullableVersions"]) if "nullableVersions" in theirs else (1, 0)
    assert (ours.nullable_from, ours.nullable_to) == nulls


@pytest.mark.parametrize(("api_key", "direction"), MESSAGES)
def test_every_row_is_as_in_kafkas_definition(api_key: int, direction: str) -> None:
    """B-B1: names, order, types, versions, nulls, defaults and tags."""
    kind = {(c.api_key, c.direction): c.schema.kind for c in CASES}[api_key, direction]
    definition = load_json(f"{APIS[api_key].name}{direction.capitalize()}")
    for ours, theirs in zip(fields_of(kind), rows_of_kafka(definition), strict=True):
        if kind is FetchResponse and ours.name == "responses":
            records = theirs["fields"][-1]["fields"][-1]
            assert records["name"] == "Records"
            del records["nullableVersions"]
            records["default"] = b""
        assert_row(ours, theirs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_cut_message_is_refused_wherever_it_is_cut(case: Case) -> None:
    """B-D5: an unparsable body is known as such, by SchemaError and nothing else."""
    body = case.encoded(sample(case))
    for size in range(len(body)):
        with pytest.raises(SchemaError):
            case.decoded(body[:size])
    with pytest.raises(SchemaError, match="1 bytes behind the end"):
        case.decoded(body + b"\0")


@pytest.mark.parametrize(
    "case",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in OLDEST.values()), *NEWEST.values()],
    ids=str,
)
def test_a_large_number_anywhere_allocates_nothing(case: Case) -> None:
    """B-D5, P-J.1.5: a length is looked at before anything is made of it."""
    body = case.encoded(sample(case))
    tracemalloc.start()
    try:
        numbers = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x7f\xff")
        for index, number in enumerate(numbers):
            for at in range(len(body)):
                damaged = body[:at] + number + body[at + len(number) :]
                frame = memoryview(damaged) if (index + at) % 2 else damaged
                with suppress(SchemaError):
                    case.schema.decode(case.version, frame)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_empty_fetch_records_are_an_empty_byte_string_and_never_null() -> None:
    """B-B1.2: librdkafka takes null for a broken message set."""
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData()])]
    )
    api = APIS[1]
    assert b"".join(api.response.encode(11, response)).endswith(b"\0\0\0\0")
    assert b"".join(api.response.encode(12, response)).endswith(b"\x01\0\0\0")
    response.responses[0].partitions[0].records = None  # type: ignore[assignment]
    for version in range(4, 13):
        with pytest.raises(SchemaError, match=r"^responses\.partitions\.records: null"):
            api.response.encode(version, response)


def test_null_and_no_topics_differ_from_metadata_version_1_on() -> None:
    """B-B1.2: version 0 cannot say null, its empty list means all of them."""
    request = APIS[3].request
    none, every = MetadataRequest(topics=[]), MetadataRequest(topics=None)
    assert b"".join(request.encode(0, none)) == bytes(4)
    assert b"".join(request.encode(1, none)) == bytes(4)
    assert b"".join(request.encode(1, every)) == b"\xff" * 4
    with pytest.raises(SchemaError, match="topics: null"):
        request.encode(0, every)
    with pytest.raises(SchemaError, match="topics: null"):
        request.decode(0, memoryview(b"\xff" * 4))


def test_features_that_nobody_set_are_not_written() -> None:
    """B-A7.4, KIP-482: a tagged field that is as by default takes no bytes."""
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    assert b"".join(APIS[18].response.encode(3, response)) == bytes.fromhex(
        "0000 02 0012 0000 0004 00 00000000 00"
    )
