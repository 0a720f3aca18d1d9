"""Produce frames: the wire vectors of contract P-J.5, grouping, responses of every shape (P-J.4).

The P-L.189 (ProduceRequestTest, ProduceResponseTest) that the codec
alone can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fastprod._core.testing.records_doors import BatchForTest
from fastprod._core.testing.request_doors import decode_response_for_test, encode_request_for_test
from support.oracle import kio_codec
from support.oracle import record_batch as oracle
from support.records import known_batches

PRODUCE = 0
VERSIONS = range(3, 14)
TOPIC_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
TIME = 1_700_000_000_000

REQUESTS = {
    8: (
        "00000096 0000 0008 00000005 0002 6670 ffff ffff 00007530 00000001 0007 746f7069632d61"
        " 00000001 00000001 00000069",
        "",
    ),
    **{
        version: (
            f"0000008f 0000 {version:04x} 00000005 0002 6670 00 00 ffff 00007530 02"
            " 08 746f7069632d61 02 00000001 6a",
            "00 00 00",
        )
        for version in (9, 10, 11, 12)
    },
    13: (
        "00000097 0000 000d 00000005 0002 6670 00 00 ffff 00007530 02"
        " 00112233445566778899aabbccddeeff 02 00000001 6a",
        "00 00 00",
    ),
}
NOT_LEADER_V10 = bytes.fromhex(
    "00000051 00000005 00 02 08 746f7069632d61 02 00000001 0006 ffffffffffffffff"
    " ffffffffffffffff ffffffffffffffff 01 00 01 00 09 00000002 00000009 00 00 00000000"
    " 01 00 0e 02 00000002 03 6232 00002384 00 00"
)


def sealed(
    records: Sequence[oracle.AnyRecord], slab_bytes: tuple[int, ...] = (), **state: int
) -> BatchForTest:
    batch = BatchForTest(slab_bytes=slab_bytes, pool_bytes=0 if slab_bytes else 1 << 20)
    for each in records:
        timestamp, key, value, headers = oracle.Record(*each)
        batch.append(timestamp, key, value, oracle.encode_headers(headers))
    batch.seal()
    batch.header(**state)  # type: ignore[arg-type]
    return batch


def one_value(value: bytes) -> BatchForTest:
    return sealed([(TIME, None, value)])


def contents(frame: bytes) -> dict[bytes, dict[int, bytes]]:
    """The records of each topic (name or id) and partition, by the schema-driven decoder."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    _, message = kio_codec.decode_request(frame[4:])
    found: dict[bytes, dict[int, bytes]] = {}
    for topic in message.topic_data:
        name = topic.name.encode() if hasattr(topic, "name") else topic.topic_id
        assert name not in found, "a topic occurs twice"
        partitions = found.setdefault(name, {})
        for partition in topic.partition_data:
            assert partition.index not in partitions, "a partition occurs twice"
            partitions[partition.index] = partition.records
    return found


@pytest.mark.parametrize("slab_bytes", [(), (1,), (44,), (43, 1)])
@pytest.mark.parametrize("version", REQUESTS)
def test_request_vectors_of_the_contract(version: int, slab_bytes: tuple[int, ...]) -> None:
    """P-J.5; P-J.1.3: the batch lies behind its length as it is."""
    before, after = REQUESTS[version]
    frame = encode_request_for_test(
        version,
        5,
        b"fp",
        -1,
        30000,
        [(b"topic-a", TOPIC_ID)],
        [(0, 1, sealed(known_batches.RECORDS_A, slab_bytes))],
    )
    assert frame == bytes.fromhex(before) + known_batches.VECTOR_A + bytes.fromhex(after)


@pytest.mark.parametrize("version", VERSIONS)
def test_header_and_common_fields_of_every_version(version: int) -> None:
    """P-F.3.1, P-G.9; the transactional id is null."""
    frame = encode_request_for_test(
        version, -(2**31), b"client", 1, 2**31 - 1, [(b"t", TOPIC_ID)], [(0, 0, one_value(b"v"))]
    )
    header, message = kio_codec.decode_request(frame[4:])
    assert header == (PRODUCE, version, -(2**31), "client")
    assert message.transactional_id is None
    assert (message.acks, message.timeout) == (1, 2**31 - 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_are_grouped_by_topic_in_whatever_order_they_come(version: int) -> None:
    """P-F.3.1, P-J.3.3: a topic once, a partition once, exactly one batch each (P-L.189)."""
    topics = [(b"b", b"B" * 16), (b"a", b"A" * 16), (b"c" * 249, b"C" * 16)]
    wanted: dict[bytes, dict[int, bytes]] = {}
    parts = []
    for index in (2, 0, 2**31 - 1, 1):
        for number, (name, topic_id) in enumerate(topics):
            batch = one_value(b"%d/%d" % (number, index))
            parts.append((number, index, batch))
            key = topic_id if version >= 13 else name
            wanted.setdefault(key, {})[index] = batch.header() + batch.body()
    frame = encode_request_for_test(version, 1, b"", -1, 1, topics, parts)
    assert contents(frame) == wanted
    again = encode_request_for_test(version, 1, b"", -1, 1, topics, parts[::-1], times=3)
    assert contents(again) == wanted


def test_a_reused_request_is_encoded_as_a_new_one() -> None:
    topics = [(b"topic", TOPIC_ID)]
    parts = [(0, index, one_value(b"x" * index * 999)) for index in range(40)]
    once = encode_request_for_test(9, 1, b"id", -1, 1, topics, parts)
    assert encode_request_for_test(9, 1, b"id", -1, 1, topics, parts, times=4) == once


def test_producer_state_of_the_moment_is_in_the_request() -> None:
    """P-D.4.3: the batch header is written when the request is."""
    batch = sealed(
        known_batches.RECORDS_A, producer_id=4000, producer_epoch=7, base_sequence=2**31 - 1
    )
    for epoch, sequence in ((7, 2**31 - 1), (8, 0)):
        batch.header(4000, epoch, sequence)
        frame = encode_request_for_test(9, 1, b"", -1, 1, [(b"t", TOPIC_ID)], [(0, 0, batch)])
        expected = oracle.encode_batch(
            known_batches.RECORDS_A, producer_id=4000, producer_epoch=epoch, base_sequence=sequence
        )
        assert contents(frame) == {b"t": {0: expected}}


def test_a_thousand_partitions_fit_the_room_made_for_them() -> None:
    topics = [(b"%0249d" % number, bytes(15) + bytes([number])) for number in range(50)]
    record = (TIME, None, b"")
    parts = [
        (number, index, sealed([record], slab_bytes=(16,)))
        for number in range(50)
        for index in range(20)
    ]
    for version in (3, 9, 13):
        frame = encode_request_for_test(version, 1, b"i" * 300, 0, 0, topics, parts)
        assert sum(len(partitions) for partitions in contents(frame).values()) == 1000


def entry(**fields: Any) -> dict[str, Any]:
    """A partition of a response as the protocol's encoder takes it."""
    return {"index": 0, "error_code": 0, "base_offset": 0, "record_errors": (), **fields}


def response(version: int, partitions: list[dict[str, Any]], **fields: Any) -> bytes:
    """The payload behind the correlation id."""
    known = {"index", "error_code", "base_offset", "log_append_time"}
    known |= {"log_start_offset"} if version >= 5 else set()
    known |= {"record_errors", "error_message"} if version >= 8 else set()
    known |= {"current_leader"} if version >= 10 else set()
    trimmed = tuple({k: v for k, v in each.items() if k in known} for each in partitions)
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "topic-a"}
    message = {
        "throttle_time": 0,
        **fields,
        "responses": ({**topic, "partition_responses": trimmed},),
    }
    if version < 10:
        message.pop("node_endpoints", None)
    return kio_codec.encode_response(PRODUCE, version, 5, message)[8:]


def test_response_vector_of_the_contract() -> None:
    """P-J.5: NOT_LEADER with the new leader and where it lives (KIP-951)."""
    partitions, throttle_ms, endpoints = decode_response_for_test(NOT_LEADER_V10[8:], 10)
    assert partitions == [
        {
            "topic": b"topic-a",
            "index": 1,
            "error_code": 6,
            "base_offset": -1,
            "log_append_ms": -1,
            "log_start_offset": -1,
            "record_errors": {},
            "message": None,
            "leader": (2, 9),
        }
    ]
    assert throttle_ms == 0
    assert endpoints == {2: ("b2", 9092)}


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_of_every_version(version: int) -> None:
    """P-J.2.1, P-J.4; P-L.189: record errors from version 8 on."""
    payload = response(
        version,
        [
            entry(
                index=3,
                error_code=87,
                base_offset=-1,
                log_append_time=TIME,
                log_start_offset=44,
                record_errors=(
                    {"batch_index": 2, "batch_index_error_message": "too old"},
                    {"batch_index": 0, "batch_index_error_message": None},
                    {"batch_index": 7, "batch_index_error_message": ""},
                ),
                error_message="caf\u00e9",
                current_leader={"leader_id": 7, "leader_epoch": 3},
            ),
            entry(index=4, base_offset=2**62),
        ],
        throttle_time=1234,
        node_endpoints=(
            {"node_id": 6, "host": "six", "port": 1, "rack": None},
            {"node_id": 7, "host": "seven", "port": 65535, "rack": "r"},
        ),
    )
    (first, second), throttle_ms, endpoints = decode_response_for_test(payload, version)
    assert first["topic"] == (TOPIC_ID if version >= 13 else b"topic-a")
    assert (first["index"], first["error_code"], first["base_offset"]) == (3, 87, -1)
    assert first["log_append_ms"] == TIME
    assert first["log_start_offset"] == (44 if version >= 5 else -1)
    errors = {2: "too old", 0: None, 7: ""}
    assert first["record_errors"] == (errors if version >= 8 else {})
    assert first["message"] == ("caf\u00e9" if version >= 8 else None)
    assert first["leader"] == ((7, 3) if version >= 10 else (-1, -1))
    assert (second["index"], second["error_code"], second["base_offset"]) == (4, 0, 2**62)
    assert (second["record_errors"], second["message"]) == ({}, None)
    assert second["leader"] == (-1, -1)
    assert throttle_ms == 1234
    assert endpoints == ({7: ("seven", 65535)} if version >= 10 else {})


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_code_from_the_future_is_just_a_number(version: int) -> None:
    payload = response(version, [entry(error_code=32767)])
    ((partition,), _, _) = decode_response_for_test(payload, version)
    assert partition["error_code"] == 32767


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_without_topics_or_partitions(version: int) -> None:
    assert decode_response_for_test(response(version, []), version) == ([], 0, {})
    nothing = kio_codec.encode_response(PRODUCE, version, 5, {"responses": (), "throttle_time": 9})[
        8:
    ]
    assert decode_response_for_test(nothing, version) == ([], 9, {})


def test_a_leader_hint_without_an_endpoint_has_none() -> None:
    leader = {"leader_id": 7, "leader_epoch": 3}
    payload = response(11, [entry(error_code=6, current_leader=leader)])
    ((partition,), _, endpoints) = decode_response_for_test(payload, 11)
    assert (partition["leader"], endpoints) == ((7, 3), {})


def test_a_leader_hint_that_is_too_short_is_no_hint() -> None:
    """P-J.1.1: nothing is read beyond the end of a tag."""
    hint = bytes.fromhex("01 00 09 00000002 00000009 00")
    payload = NOT_LEADER_V10[8:].replace(hint, bytes.fromhex("01 00 07 00000002 000000"))
    assert len(payload) == len(NOT_LEADER_V10[8:]) - 2
    ((partition,), _, endpoints) = decode_response_for_test(payload, 10)
    assert (partition["leader"], endpoints) == ((-1, -1), {})


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_behind_a_response_are_ignored(version: int) -> None:
    """P-J.1.4."""
    payload = response(version, [entry()])
    assert decode_response_for_test(payload + b"\x01\x02", version) == decode_response_for_test(
        payload, version
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_cut_short_anywhere_is_refused(version: int) -> None:
    """P-J.1.5."""
    payload = response(
        version,
        [
            entry(
                record_errors=({"batch_index": 2, "batch_index_error_message": "x"},),
                error_message="m",
                current_leader={"leader_id": 7, "leader_epoch": 3},
            )
        ],
        node_endpoints=({"node_id": 7, "host": "h", "port": 1, "rack": "r"},),
    )
    assert decode_response_for_test(payload, version)
    for size in range(len(payload)):
        with pytest.raises(ValueError, match="does not parse"):
            decode_response_for_test(payload[:size], version)


COUNTS = {
    "null topics, v8": (8, "ffffffff"),
    "-2 topics, v8": (8, "fffffffe"),
    "more topics than bytes, v8": (8, "7fffffff"),
    "null topics, v9": (9, "00 00"),
    "more topics than bytes, v9": (9, "00 ffffffff0f"),
    "topic count above 32 bits, v9": (9, "00 ffffffff1f"),
    "header tag longer than the frame, v9": (9, "01 05 ffffffff0f"),
    "more header tags than bytes, v9": (9, "ffffffff0f"),
    "null topic name, v8": (8, "00000001 ffff"),
    "topic name of -2 bytes, v8": (8, "00000001 fffe"),
    "topic name longer than the frame, v8": (8, "00000001 7fff"),
    "null topic name, v9": (9, "00 02 00"),
    "topic name longer than the frame, v9": (9, "00 02 ffffffff0f"),
    "null partitions, v8": (8, "00000001 0001 74 ffffffff"),
    "null partitions, v9": (9, "00 02 02 74 00"),
}


@pytest.mark.parametrize("what", COUNTS)
def test_impossible_counts_and_lengths_are_refused(what: str) -> None:
    """P-J.1.5."""
    version, start = COUNTS[what]
    with pytest.raises(ValueError, match="does not parse"):
        decode_response_for_test(bytes.fromhex(start) + bytes(64), version)


def test_before_version_10_the_leader_tags_mean_nothing() -> None:
    """KIP-951 gave tag 0 its meaning; an older response may have any bytes there (P-J.1.4)."""
    empty_tag_0 = bytes.fromhex("000100000000010000")
    assert decode_response_for_test(empty_tag_0, 9) == ([], 0, {})
    with pytest.raises(ValueError):
        decode_response_for_test(empty_tag_0, 10)
