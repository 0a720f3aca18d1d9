"""Metadata on the wire, against the vectors of P-J.5 and the layouts of P-J.4."""

from __future__ import annotations

import pytest

from fastprod.client.metadata.metadata_answer import NO_TOPIC_ID, metadata_request, read_metadata
from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID = bytes(range(16))
BROKER = MetadataResponseBroker(node_id=2, host="b2", port=9092, rack="r")

FLEXIBLE_PARTITION = "0000 00000001 00000002 00000009 03 00000002 00000003 02 00000002 01"
V12 = (
    "00000005 00 00000064"
    " 02 00000002 03 6232 00002384 02 72 00"
    " 02 63 00000002"
    " 02 0000 08 746f7069632d61 000102030405060708090a0b0c0d0e0f 01"
    f" 02 {FLEXIBLE_PARTITION} 00 80000000 00"
)
PARTITION = MetadataResponsePartition(0, 1, 2, 9, (2, 3), (2,), ())
TOPIC = MetadataResponseTopic(
    name="topic-a", topic_id=TOPIC_ID, is_internal=True, partitions=[PARTITION]
)


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
    """P-J.3.2, P-J.5: from version 10 on an id of zeros stands before the name."""
    assert metadata_request(version, 5, "fp", ["topic-a"]) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("version", "none", "every"), [(4, "00000000 00", "ffffffff 00"), (12, "01 00 00", "00 00 00")]
)
def test_an_empty_list_asks_for_no_topic_and_none_for_all(
    version: int, none: str, every: str
) -> None:
    """P-H.2.8, P-J.3.1."""
    head = 4 + 10 + 2 + (version >= 9)
    nothing = metadata_request(version, 5, "fp", [], allow_auto_topic_creation=False)
    everything = metadata_request(version, 5, "fp", None, allow_auto_topic_creation=False)
    tail = "00" if version >= 9 else ""
    assert nothing[head:] == bytes.fromhex(none + tail)
    assert everything[head:] == bytes.fromhex(every + tail)


def test_a_metadata_response_of_version_12_is_read_whole() -> None:
    """P-J.4; KIP-516 topic id, KIP-320 epoch."""
    assert read_metadata(12, bytes.fromhex(V12 + "00")) == MetadataResponse(
        throttle_time_ms=100, brokers=[BROKER], cluster_id="c", controller_id=2, topics=[TOPIC]
    )


def test_version_13_carries_an_error_of_the_whole_response() -> None:
    """P-J.2.2: REBOOTSTRAP_REQUIRED."""
    response = read_metadata(13, bytes.fromhex(V12 + "0081 00"))
    assert response.error_code == 129
    assert response.topics == [TOPIC]


def test_an_error_code_newer_than_this_version_spoils_nothing() -> None:
    """P-F.4: an unknown code is data."""
    changed = V12.replace("0000 08 746f", "7ffe 08 746f").replace(
        FLEXIBLE_PARTITION, "7ffd" + FLEXIBLE_PARTITION[4:]
    )
    (topic,) = read_metadata(12, bytes.fromhex(changed + "00")).topics
    assert topic.error_code == 0x7FFE
    assert topic.partitions[0].error_code == 0x7FFD


def test_unknown_tags_and_trailing_bytes_are_skipped() -> None:
    """P-J.1.1, P-J.1.4."""
    tagged = V12.replace(f"{FLEXIBLE_PARTITION} 00", f"{FLEXIBLE_PARTITION} 01 05 02 aabb")
    response = read_metadata(12, bytes.fromhex(tagged + "01 09 01 ff ee"))
    assert response.topics == [TOPIC]


def test_more_replicas_than_one_length_byte_can_count() -> None:
    """P-J.1.1: the length of a compact array is a varint."""
    replicas = tuple(range(300))
    wide = "ad02" + b"".join(n.to_bytes(4, "big") for n in replicas).hex()
    data = V12.replace("03 00000002 00000003", wide)
    (topic,) = read_metadata(12, bytes.fromhex(data + "00")).topics
    assert topic.partitions == [PARTITION._replace(replica_nodes=replicas)]


@pytest.mark.parametrize(
    ("version", "partition", "expected"),
    [
        (
            4,
            "0005 00000001 ffffffff 00000001 00000002 00000000",
            MetadataResponsePartition(5, 1, -1, -1, (2,), (), ()),
        ),
        (
            5,
            "0000 00000001 00000002 00000001 00000002 00000000 00000001 00000003",
            MetadataResponsePartition(0, 1, 2, -1, (2,), (), (3,)),
        ),
        (
            7,
            "0000 00000001 00000002 00000009 00000000 00000000 00000001 00000003",
            MetadataResponsePartition(0, 1, 2, -1, (), (), (3,)),
        ),
    ],
)
def test_old_versions_lack_epochs_and_offline_replicas(
    version: int, partition: str, expected: MetadataResponsePartition
) -> None:
    """P-J.4; P-H.4.1: epochs below version 9 are not reliable."""
    data = (
        "00000005 00000000 00000001 00000002 0002 6232 00002384 ffff ffff ffffffff"
        f" 00000001 0000 0001 74 00 00000001 {partition}"
    )
    response = read_metadata(version, bytes.fromhex(data))
    assert response.brokers == [MetadataResponseBroker(node_id=2, host="b2", port=9092)]
    assert (response.cluster_id, response.controller_id) == (None, -1)
    (topic,) = response.topics
    assert (topic.name, topic.topic_id, topic.is_internal) == ("t", NO_TOPIC_ID, False)
    assert topic.partitions == [expected]


def test_every_cut_and_every_null_array_is_a_schema_error() -> None:
    """P-J.1.5."""
    whole = bytes.fromhex(V12 + "00")
    for size in range(len(whole)):
        with pytest.raises(SchemaError, match="Metadata response v12"):
            read_metadata(12, whole[:size])
    for array in ("02 00000002 03 6232", "02 0000 08 746f", f"02 {FLEXIBLE_PARTITION}"):
        assert array in V12
        with pytest.raises(SchemaError):
            read_metadata(12, bytes.fromhex(V12.replace(array, "00" + array[2:], 1)))


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffffff07", "808004"])
def test_a_length_that_cannot_be_is_refused_at_once(count: str) -> None:
    """P-J.1.5: nothing is allocated for it."""
    for where in ("02 00000002 03", "02 0000 08", f"02 {FLEXIBLE_PARTITION}", "03 00000002 0000"):
        assert where in V12
        damaged = V12.replace(where, count + where[2:], 1)
        with pytest.raises(SchemaError):
            read_metadata(12, bytes.fromhex(damaged + "00"))


def test_versions_beyond_the_range_are_refused() -> None:
    """P-J.2."""
    with pytest.raises(UnsupportedVersionError, match="Metadata of version 14"):
        metadata_request(14, 1, None, [])
    with pytest.raises(UnsupportedVersionError, match="Metadata of version 14"):
        read_metadata(14, b"")
