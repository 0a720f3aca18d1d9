"""fastprod.messages: Metadata and InitProducerId against the vectors of J.5 and layouts of J.4."""

from __future__ import annotations

import pytest

from fastprod.errors import UnsupportedVersionError
from fastprod.frames import SchemaError
from fastprod.messages import (
    NO_TOPIC_ID,
    InitProducerIdResponse,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
    init_producer_id_request,
    metadata_request,
    parse_init_producer_id_response,
    parse_metadata_response,
)
from fastprod.records import Node

TOPIC_ID = bytes(range(16))

FLEXIBLE_PARTITION = "0000 00000001 00000002 00000009 03 00000002 00000003 02 00000002 01"
V12 = (
    "00000005 00 00000064"
    " 02 00000002 03 6232 00002384 02 72 00"
    " 02 63 00000002"
    " 02 0000 08 746f7069632d61 000102030405060708090a0b0c0d0e0f 01"
    f" 02 {FLEXIBLE_PARTITION} 00 80000000 00"
)
PARTITION = PartitionMetadata(0, 1, 2, 9, (2, 3), (2,), ())
TOPIC = TopicMetadata(0, "topic-a", TOPIC_ID, True, (PARTITION,))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            12,
            "0000002a 0003 000c 00000005 0002 6670 00 02 00000000000000000000000000000000"
            " 08 746f7069632d61 00 01 00 00",
        ),
        (
            13,
            "0000002a 0003 000d 00000005 0002 6670 00 02 00000000000000000000000000000000"
            " 08 746f7069632d61 00 01 00 00",
        ),
        (8, "0000001c 0003 0008 00000005 0002 6670 00000001 0007 746f7069632d61 01 00 00"),
    ],
)
def test_metadata_requests_are_the_vectors(version: int, expected: str) -> None:
    """J.3.2, J.5: from version 10 on an id of zeros stands before the name."""
    assert metadata_request(version, 5, "fp", ["topic-a"]) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("version", "none", "every"), [(4, "00000000 00", "ffffffff 00"), (12, "01 00 00", "00 00 00")]
)
def test_an_empty_list_asks_for_no_topic_and_none_for_all(
    version: int, none: str, every: str
) -> None:
    """H.2.8, J.3.1."""
    head = 4 + 10 + 2 + (version >= 9)
    nothing = metadata_request(version, 5, "fp", [], allow_auto_topic_creation=False)
    everything = metadata_request(version, 5, "fp", None, allow_auto_topic_creation=False)
    tail = "00" if version >= 9 else ""
    assert nothing[head:] == bytes.fromhex(none + tail)
    assert everything[head:] == bytes.fromhex(every + tail)


def test_a_metadata_response_of_version_12_is_read_whole() -> None:
    """J.4; KIP-516 topic id, KIP-320 epoch."""
    assert parse_metadata_response(12, bytes.fromhex(V12 + "00")) == MetadataResponse(
        12, (Node(2, "b2", 9092, "r"),), "c", 2, (TOPIC,), 100, 0
    )


def test_version_13_carries_an_error_of_the_whole_response() -> None:
    """J.2.2: REBOOTSTRAP_REQUIRED."""
    response = parse_metadata_response(13, bytes.fromhex(V12 + "0081 00"))
    assert response.error_code == 129
    assert response.topics == (TOPIC,)


def test_an_error_code_newer_than_this_version_spoils_nothing() -> None:
    """F.4: an unknown code is data."""
    changed = V12.replace("0000 08 746f", "7ffe 08 746f").replace(
        FLEXIBLE_PARTITION, "7ffd" + FLEXIBLE_PARTITION[4:]
    )
    (topic,) = parse_metadata_response(12, bytes.fromhex(changed + "00")).topics
    assert topic.error_code == 0x7FFE
    assert topic.partitions[0].error_code == 0x7FFD


def test_unknown_tags_and_trailing_bytes_are_skipped() -> None:
    """J.1.1, J.1.4."""
    tagged = V12.replace(f"{FLEXIBLE_PARTITION} 00", f"{FLEXIBLE_PARTITION} 01 05 02 aabb")
    response = parse_metadata_response(12, bytes.fromhex(tagged + "01 09 01 ff ee"))
    assert response.topics == (TOPIC,)


def test_more_replicas_than_one_length_byte_can_count() -> None:
    """J.1.1: the length of a compact array is a varint."""
    replicas = tuple(range(300))
    wide = "ad02" + b"".join(n.to_bytes(4, "big") for n in replicas).hex()
    data = V12.replace("03 00000002 00000003", wide)
    (topic,) = parse_metadata_response(12, bytes.fromhex(data + "00")).topics
    assert topic.partitions == (PARTITION._replace(replicas=replicas),)


@pytest.mark.parametrize(
    ("version", "partition", "expected"),
    [
        (
            4,
            "0005 00000001 ffffffff 00000001 00000002 00000000",
            PartitionMetadata(5, 1, -1, -1, (2,), (), ()),
        ),
        (
            5,
            "0000 00000001 00000002 00000001 00000002 00000000 00000001 00000003",
            PartitionMetadata(0, 1, 2, -1, (2,), (), (3,)),
        ),
        (
            7,
            "0000 00000001 00000002 00000009 00000000 00000000 00000001 00000003",
            PartitionMetadata(0, 1, 2, 9, (), (), (3,)),
        ),
    ],
)
def test_old_versions_lack_epochs_and_offline_replicas(
    version: int, partition: str, expected: PartitionMetadata
) -> None:
    """J.4; H.4.1: epochs below version 9 are not reliable."""
    data = (
        "00000005 00000000 00000001 00000002 0002 6232 00002384 ffff ffff ffffffff"
        f" 00000001 0000 0001 74 00 00000001 {partition}"
    )
    response = parse_metadata_response(version, bytes.fromhex(data))
    assert response.brokers == (Node(2, "b2", 9092, None),)
    assert (response.cluster_id, response.controller_id) == (None, -1)
    assert response.topics == (TopicMetadata(0, "t", NO_TOPIC_ID, False, (expected,)),)
    assert not response.has_reliable_leader_epochs
    assert MetadataResponse(9, (), None, -1, ()).has_reliable_leader_epochs


def test_every_cut_and_every_null_array_is_a_schema_error() -> None:
    """J.1.5."""
    whole = bytes.fromhex(V12 + "00")
    for size in range(len(whole)):
        with pytest.raises(SchemaError, match="Metadata response v12"):
            parse_metadata_response(12, whole[:size])
    for array in ("02 00000002 03 6232", "02 0000 08 746f", f"02 {FLEXIBLE_PARTITION}"):
        assert array in V12
        with pytest.raises(SchemaError):
            parse_metadata_response(12, bytes.fromhex(V12.replace(array, "00" + array[2:], 1)))


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffffff07", "808004"])
def test_a_length_that_cannot_be_is_refused_at_once(count: str) -> None:
    """J.1.5: nothing is allocated for it."""
    for where in ("02 00000002 03", "02 0000 08", f"02 {FLEXIBLE_PARTITION}", "03 00000002 0000"):
        assert where in V12
        damaged = V12.replace(where, count + where[2:], 1)
        with pytest.raises(SchemaError):
            parse_metadata_response(12, bytes.fromhex(damaged + "00"))


def test_the_idempotent_request_of_version_4_is_the_vector() -> None:
    """J.5, F.5.1."""
    assert init_producer_id_request(4, 5, "fp") == bytes.fromhex(
        "0000001d 0016 0004 00000005 0002 6670 00 00 7fffffff ffffffffffffffff ffff 00"
    )


def test_older_requests_have_no_producer_id_and_the_oldest_no_tags() -> None:
    """J.4: producer id and epoch from 3 on (KIP-360), flexible from 2 on."""
    assert init_producer_id_request(
        2, 5, "fp", transactional_id="t", transaction_timeout_ms=60_000
    ) == bytes.fromhex("00000014 0016 0002 00000005 0002 6670 00 02 74 0000ea60 00")
    assert init_producer_id_request(1, 5, "fp") == bytes.fromhex(
        "00000012 0016 0001 00000005 0002 6670 ffff 7fffffff"
    )
    assert init_producer_id_request(5, 5, "fp", producer_id=4000, producer_epoch=7).endswith(
        bytes.fromhex("0000000000000fa0 0007 00")
    )


def test_requests_the_broker_would_refuse_are_refused_here() -> None:
    """J.2.3."""
    with pytest.raises(ValueError, match="transactional_id is empty"):
        init_producer_id_request(4, 5, "fp", transactional_id="")
    for timeout_ms in (0, 2**31):
        with pytest.raises(ValueError, match=f"{timeout_ms} ms"):
            init_producer_id_request(4, 5, "fp", transaction_timeout_ms=timeout_ms)


@pytest.mark.parametrize(("version", "header", "end"), [(1, "", ""), (2, "00", "00")])
def test_an_answer_gives_id_epoch_and_error(version: int, header: str, end: str) -> None:
    """J.4."""
    payload = bytes.fromhex(f"00000005 {header} 0000000a 0000 0000000000000fa0 0007 {end}")
    assert parse_init_producer_id_response(version, payload) == InitProducerIdResponse(
        0, 4000, 7, 10
    )
    with pytest.raises(SchemaError, match="InitProducerId response"):
        parse_init_producer_id_response(version, payload[:-2])


def test_versions_beyond_the_range_are_refused() -> None:
    """J.2: Metadata 4 to 13, InitProducerId 0 to 5."""
    for version in (3, 14):
        with pytest.raises(UnsupportedVersionError, match=f"Metadata of version {version}"):
            metadata_request(version, 1, None, [])
        with pytest.raises(UnsupportedVersionError, match=f"Metadata of version {version}"):
            parse_metadata_response(version, b"")
    for version in (-1, 6):
        with pytest.raises(UnsupportedVersionError, match=f"InitProducerId of version {version}"):
            init_producer_id_request(version, 1, None)
        with pytest.raises(UnsupportedVersionError, match=f"InitProducerId of version {version}"):
            parse_init_producer_id_response(version, b"")
