"""Produce frames of any shape against kio's schemas, and responses that were damaged."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing.records_doors import BatchForTest
from fastprod._core.testing.request_doors import decode_response_for_test, encode_request_for_test
from support.oracle import kio_codec, kio_messages, varint
from support.oracle import record_batch as oracle
from support.oracle.frames import SchemaError
from support.processes.scale import examples

PRODUCE = 0
VERSIONS = st.integers(3, 13)
FLEXIBLE = 9
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(min_size=1, max_size=20).map(str.encode)
IDS = st.binary(min_size=16, max_size=16)


@functools.cache
def responses(version: int) -> Any:
    return kio_messages.messages(kio_messages.schema(PRODUCE, version, "response"))


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[tuple[bytes, bytes]], list[tuple[int, int, bytes]]]:
    """Topics, and (topic, partition, value) in any order."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    ids = draw(st.lists(IDS, min_size=len(names), max_size=len(names), unique=True))
    where = st.tuples(st.integers(0, len(names) - 1), st.integers(0, 2**31 - 1))
    places = draw(st.lists(where, min_size=1, max_size=12, unique=True))
    values = st.binary(max_size=40)
    return list(zip(names, ids, strict=True)), [(*place, draw(values)) for place in places]


def sealed(value: bytes, slab_bytes: list[int], sequence: int) -> BatchForTest:
    batch = BatchForTest(slab_bytes=slab_bytes)
    batch.append(1_700_000_000_000, b"k", value)
    batch.seal()
    batch.header(7, 1, sequence)
    return batch


@settings(max_examples=examples(300))
@given(
    version=VERSIONS,
    request=requests(),
    slab_bytes=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    correlation_id=INT32,
    client_id=st.text(max_size=20),
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
)
def test_every_request_is_read_back_as_it_was_meant(
    version: int,
    request: tuple[list[tuple[bytes, bytes]], list[tuple[int, int, bytes]]],
    slab_bytes: list[int],
    correlation_id: int,
    client_id: str,
    acks: int,
    timeout_ms: int,
) -> None:
    """P-F.3.1, P-J.4: and the schema's encoder makes the same bytes of what was read."""
    topics, places = request
    parts = [
        (number, index, sealed(value, slab_bytes, sequence))
        for sequence, (number, index, value) in enumerate(places)
    ]
    frame = encode_request_for_test(
        version, correlation_id, client_id.encode(), acks, timeout_ms, topics, parts
    )
    header, message = kio_codec.decode_request(frame[4:])
    assert header == (PRODUCE, version, correlation_id, client_id)
    plain = kio_messages.plain(message)
    assert (plain["transactional_id"], plain["acks"], plain["timeout"]) == (None, acks, timeout_ms)
    read = {
        (topic.get("topic_id") or topic["name"].encode(), partition["index"]): partition["records"]
        for topic in plain["topic_data"]
        for partition in topic["partition_data"]
    }
    assert sum(len(topic["partition_data"]) for topic in plain["topic_data"]) == len(places)
    assert len(plain["topic_data"]) == len({number for number, _, _ in places})
    assert read == {
        (topics[number][version >= 13], index): oracle.encode_batch(
            [(1_700_000_000_000, b"k", value)],
            producer_id=7,
            producer_epoch=1,
            base_sequence=sequence,
        )
        for sequence, (number, index, value) in enumerate(places)
    }
    assert frame == kio_codec.encode_request(PRODUCE, version, correlation_id, client_id, plain)


def expected(version: int, plain: dict[str, Any]) -> list[dict[str, Any]]:
    """What our reader must say of a response."""
    return [
        {
            "topic": topic["topic_id"] if version >= 13 else topic["name"].encode(),
            "index": partition["index"],
            "error_code": partition["error_code"],
            "base_offset": partition["base_offset"],
            "log_append_ms": partition["log_append_time"],
            "log_start_offset": partition.get("log_start_offset", -1),
            "record_errors": {
                error["batch_index"]: error["batch_index_error_message"]
                for error in partition.get("record_errors", ())
            },
            "message": partition.get("error_message"),
            "leader": (
                partition.get("current_leader", {}).get("leader_id", -1),
                partition.get("current_leader", {}).get("leader_epoch", -1),
            ),
        }
        for topic in plain["responses"]
        for partition in topic["partition_responses"]
    ]


def endpoints(plain: dict[str, Any], leaders: set[int]) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for node in plain.get("node_endpoints", ()):
        if node["node_id"] in leaders:
            found.setdefault(node["node_id"], (node["host"], node["port"]))
    return found


@settings(max_examples=examples(400))
@given(version=VERSIONS, data=st.data(), behind=st.binary(max_size=5))
def test_every_response_of_kio_is_read_as_it_was_meant(
    version: int, data: st.DataObject, behind: bytes
) -> None:
    """P-J.4; P-L.189."""
    plain, rich = data.draw(responses(version))
    head = b"\x00" if version >= FLEXIBLE else b""
    payload = head + kio_messages.encoded(rich) + behind
    partitions, throttle_ms, found = decode_response_for_test(payload, version)
    assert partitions == expected(version, plain)
    assert throttle_ms == plain["throttle_time"]
    assert found == endpoints(plain, {partition["leader"][0] for partition in partitions})


TAGS = st.lists(
    st.tuples(st.integers(1, 2**32 - 1), st.binary(max_size=6)),
    max_size=3,
    unique_by=lambda tag: tag[0],
).map(sorted)


def section(tags: list[tuple[int, bytes]]) -> bytes:
    return varint.encode_unsigned(len(tags)) + b"".join(
        [varint.encode_unsigned(tag) + compact(value) for tag, value in tags]
    )


def compact(value: bytes, more: int = 0) -> bytes:
    """Bytes behind their length plus `more`: 0 in a tag, 1 in a string."""
    return varint.encode_unsigned(len(value) + more) + value


@given(version=st.integers(10, 13), data=st.data(), leader=INT32, epoch=INT32, port=INT32)
def test_unknown_tags_are_skipped_wherever_they_are(
    version: int, data: st.DataObject, leader: int, epoch: int, port: int
) -> None:
    """P-J.1.1: in the header, the response, a topic, a partition, a record error, an endpoint."""
    hint = leader.to_bytes(4, "big", signed=True) + epoch.to_bytes(4, "big", signed=True)
    node = b"\x02" + leader.to_bytes(4, "big", signed=True) + compact(b"host", 1)
    node += port.to_bytes(4, "big", signed=True) + b"\x00" + section(data.draw(TAGS))
    topic = b"T" * 16 if version >= 13 else compact(b"topic", 1)
    payload = (
        section(data.draw(TAGS))
        + b"\x02"
        + topic
        + b"\x02"
        + bytes(3)
        + b"\x05\x00\x06"
        + b"\xff" * 24
        + b"\x02"
        + bytes(3)
        + b"\x01"
        + compact(b"bad", 1)
        + section(data.draw(TAGS))
        + compact(b"message", 1)
        + section([(0, hint + section(data.draw(TAGS))), *data.draw(TAGS)])
        + section(data.draw(TAGS))
        + bytes(4)
        + section([(0, node), *data.draw(TAGS)])
    )
    ((partition,), throttle_ms, found) = decode_response_for_test(payload, version)
    assert partition == {
        "topic": b"T" * 16 if version >= 13 else b"topic",
        "index": 5,
        "error_code": 6,
        "base_offset": -1,
        "log_append_ms": -1,
        "log_start_offset": -1,
        "record_errors": {1: "bad"},
        "message": "message",
        "leader": (leader, epoch),
    }
    assert throttle_ms == 0
    assert found == {leader: ("host", port)}


@settings(max_examples=examples(150))
@given(version=VERSIONS, data=st.data())
def test_a_response_cut_short_is_refused(version: int, data: st.DataObject) -> None:
    """P-J.1.5: at every byte."""
    _, rich = data.draw(responses(version))
    payload = (b"\x00" if version >= FLEXIBLE else b"") + kio_messages.encoded(rich)
    for size in range(len(payload)):
        assert refused(payload[:size], version)


def refused(payload: bytes, version: int) -> bool:
    try:
        decode_response_for_test(payload, version)
    except ValueError:
        return True
    return False


def same_as_the_schema_says(payload: bytes, version: int) -> bool:
    """What the schema's reader accepts, ours reads alike; what it refuses, ours may refuse."""
    try:
        _, message = kio_codec.decode_response(PRODUCE, version, bytes(4) + payload)
    except SchemaError:
        refused(payload, version)
        return True
    plain = kio_messages.plain(message)
    partitions, throttle_ms, found = decode_response_for_test(payload, version)
    return (
        partitions == expected(version, plain)
        and throttle_ms == plain["throttle_time"]
        and found == endpoints(plain, {partition["leader"][0] for partition in partitions})
    )


@settings(max_examples=examples(400))
@given(version=VERSIONS, data=st.data())
def test_a_damaged_response_is_refused_or_read_as_the_schema_says(
    version: int, data: st.DataObject
) -> None:
    _, rich = data.draw(responses(version))
    payload = bytearray((b"\x00" if version >= FLEXIBLE else b"") + kio_messages.encoded(rich))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    assert same_as_the_schema_says(bytes(payload), version)


@given(version=VERSIONS, noise=st.binary(max_size=200))
def test_noise_is_refused_or_read_as_the_schema_says(version: int, noise: bytes) -> None:
    assert same_as_the_schema_says(noise, version)
