"""fastprod.broker.api_table: lists, headers, pinning; B-B1, B-B1.1, B-B1.2, B-A7.1, B-A7.2,
B-D5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from fastprod.broker.api_table import APIS, RELEASES, SERVICES, ApiTable, InvalidRequestError, Pin
from fastprod.broker.network.request import RequestHeader
from fastprod.errors import ConfigError
from fastprod.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from fastprod.protocol.messages.produce import ProduceResponse
from fastprod.protocol.schema import SchemaError

# B-B1, last column, with what is served where that is less.
LISTED = {
    "Produce": (0, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "SaslHandshake": (0, 1),
    "ApiVersions": (0, 4),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
    "DeleteRecords": (0, 2),
    "AlterConfigs": (0, 2),
    "CreatePartitions": (0, 3),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (2, 4),
    "AddPartitionsToTxn": (0, 5),
    "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 5),
    "WriteTxnMarkers": (1, 2),
    "TxnOffsetCommit": (0, 5),
    "DescribeAcls": (1, 3),
    "CreateAcls": (1, 3),
    "DeleteAcls": (1, 3),
    "DescribeConfigs": (1, 4),
    "DescribeLogDirs": (1, 5),
    "SaslAuthenticate": (0, 2),
    "DeleteGroups": (0, 2),
    "ElectLeaders": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "OffsetDelete": (0, 0),
    "DescribeClientQuotas": (0, 1),
    "AlterClientQuotas": (0, 1),
    "DescribeUserScramCredentials": (0, 0),
    "AlterUserScramCredentials": (0, 0),
    "DescribeCluster": (0, 2),
    "DescribeProducers": (0, 0),
    "DescribeTransactions": (0, 0),
    "ListTransactions": (0, 2),
    "ConsumerGroupHeartbeat": (0, 1),
    "ConsumerGroupDescribe": (0, 1),
}


def listed(table: ApiTable) -> dict[str, tuple[int, int]]:
    return {
        APIS[row.api_key].name: (row.min_version, row.max_version) for row in table.api_versions()
    }


def header(key: int, version: int, client_id: bytes | None = b"me", tags: bytes = b"") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 77, size) + (client_id or b"") + tags


def parse(data: bytes, table: ApiTable | None = None) -> RequestHeader:
    return (table or ApiTable()).parse_header(memoryview(data))


def test_the_list_is_that_of_kafka_4_3() -> None:
    """B-B1."""
    assert listed(ApiTable()) == LISTED
    assert [row.api_key for row in ApiTable().api_versions()] == sorted(APIS)
    assert ApiTable().listed(1) == (4, 18)
    assert ApiTable().listed(9999) is None


def test_the_list_is_one_for_all_and_keeps_its_bytes() -> None:
    table = ApiTable()
    assert table.api_versions() is table.api_versions()
    answers = [
        APIS[18].response.encode(version, ApiVersionsResponse(api_keys=rows))
        for version in (0, 3, 0, 3)
        for rows in (table.api_versions(), list(table.api_versions()))
    ]
    assert len({b"".join(each) for each in answers}) == 2


def test_what_is_listed_is_served_but_for_old_produce() -> None:
    """B-B1.1: Produce is listed from 0 and served from 3."""
    for api, listed, served, _ in SERVICES.values():
        assert served == ((3, 13) if api.name == "Produce" else listed)
        assert api.versions[0] <= served.first <= served.last <= api.versions[1]


@pytest.mark.parametrize("release", RELEASES)
def test_a_pinned_list_has_the_maxima_of_that_release(release: str) -> None:
    """B-B1.1: one real column, lowered uniformly."""
    major, minor = release.split(".")
    kafka = BROKER_API_VERSIONS[int(major), int(minor)]
    wanted = {
        api.name: (listed.first, min(kafka[api.key][1], listed.last))
        for api, listed, _, _ in SERVICES.values()
        # WriteTxnMarkers 0, of 2.1, is gone from Kafka 4.
        if api.key in kafka and kafka[api.key][1] >= listed.first
    }
    assert listed(ApiTable(max_versions=release)) == wanted
    assert ("DescribeCluster" in wanted) == (release != "2.1")


def test_single_apis_are_pinned_by_name_or_key() -> None:
    """B-B1.1: per-key overrides, which win over a release."""
    table = ApiTable("2.8", {"Produce": 7, 1: (5, 11), "DescribeCluster": None, "ListOffsets": 7})
    rows = listed(table)
    assert rows["Produce"] == (0, 7)
    assert rows["Fetch"] == (5, 11)
    assert rows["ListOffsets"] == (1, 7)
    assert rows["Metadata"] == (0, 11)
    assert "DescribeCluster" not in rows
    assert (table.is_listed(1, 5), table.is_listed(1, 4), table.is_listed(60, 0)) == (
        True,
        False,
        False,
    )
    assert listed(ApiTable("2.1", {"DescribeCluster": 1}))["DescribeCluster"] == (0, 1)


@pytest.mark.parametrize(
    ("release", "versions", "complaint"),
    [
        ("2.2", {}, r"max_versions = '2.2': no such list; there are 2.1, 2.8, 3.0, 3.7"),
        (None, {"Produced": 3}, r"no API is called 'Produced'; there are Produce, Fetch"),
        (None, {4711: 3}, r"no API is called 4711"),
        (None, {"Fetch": 19}, r"versions of Fetch = 4\.\.19: they must lie in 4\.\.18"),
        (None, {"Fetch": (0, 12)}, r"versions of Fetch = 0\.\.12: they must lie in 4\.\.18"),
        (None, {"Fetch": (8, 7)}, r"versions of Fetch = 8\.\.7: they must"),
        (None, {"Produce": 2}, r"versions of Produce = 0\.\.2: none of them is served, that beg"),
    ],
)
def test_versions_that_cannot_be_had_are_refused(
    release: str | None, versions: Mapping[str | int, Pin], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ApiTable(release, versions)


def test_a_header_is_read_up_to_its_body() -> None:
    """B-B1: version 1 of the request header, or 2 with tagged fields."""
    assert parse(header(3, 1)) == RequestHeader(3, 1, 77, "me", 12)
    assert parse(header(3, 1, None)) == RequestHeader(3, 1, 77, None, 10)
    assert parse(header(3, 1, b"")) == RequestHeader(3, 1, 77, "", 10)
    assert parse(header(3, 9, b"me", b"\0")) == RequestHeader(3, 9, 77, "me", 13)


def test_unknown_tagged_fields_of_the_header_are_skipped() -> None:
    """B-B1.2."""
    frame = header(3, 9, b"me", b"\2\0\3abc\7\0") + bytes.fromhex("00 01 00 00 00")
    found = parse(frame)
    assert found.body_offset == 12 + 8
    assert ApiTable().decode_request(found, memoryview(frame)) == MetadataRequest(
        topics=None, allow_auto_topic_creation=True
    )


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "a request of 0 bytes, fewer than the 10 of a header"),
        (bytes(9), "a request of 9 bytes"),
        (header(3, 1, b"abc")[:-1], "Metadata request, version 1, is damaged: client_id: 3 bytes"),
        (struct.pack(">hhih", 3, 1, 0, -2), "client_id: -2 bytes stated"),
        (header(3, 1, b"\xff"), "can't decode byte 0xff"),
        (header(3, 9, b"me"), "Metadata request, version 9, is damaged"),
        (header(3, 9, b"me", b"\1\0\5abc"), "5 bytes stated, 3 left"),
        (header(3, 9, b"me", b"\xff\xff\xff\xff\xff"), "more than 32 bits"),
    ],
)
def test_a_damaged_header_is_refused(frame: bytes, complaint: str) -> None:
    """B-D5."""
    with pytest.raises(InvalidRequestError, match=complaint):
        parse(frame)


@pytest.mark.parametrize(
    ("key", "version", "complaint"),
    [
        (4711, 0, "API key 4711, version 0, is not listed"),
        (-1, 0, "API key -1, version 0, is not listed"),
        (1, 3, r"version 3 of Fetch \(API key 1\) is not served: this broker takes 4\.\.18"),
        (1, 19, r"version 19 of Fetch"),
        (3, -1, r"version -1 of Metadata"),
        (0, 2, r"version 2 of Produce \(API key 0\) is not served: this broker takes 3\.\.13"),
        (0, 14, r"version 14 of Produce"),
    ],
)
def test_what_is_not_served_is_refused(key: int, version: int, complaint: str) -> None:
    """B-C2.4, B-D5, and B-B1: listed Produce 0-2 closes the connection."""
    with pytest.raises(InvalidRequestError, match=complaint) as caught:
        parse(header(key, version, b"me", b"\0"))
    assert (caught.value.code, caught.value.name) == (42, "INVALID_REQUEST")
    assert vars(caught.value) == {"api_key": key, "version": version}


def test_a_pinned_broker_refuses_what_it_does_not_list() -> None:
    """B-B1.1."""
    table = ApiTable("2.1", {"FindCoordinator": None})
    assert parse(header(1, 10), table).version == 10
    with pytest.raises(InvalidRequestError, match=r"takes 4\.\.10"):
        parse(header(1, 11), table)
    with pytest.raises(InvalidRequestError, match=r"API key 10 \(FindCoordinator\), version 0"):
        parse(header(10, 0), table)


@pytest.mark.parametrize("version", [-1, 0, 2, 3, 4, 5, 0x7FFF])
def test_api_versions_passes_in_every_version(version: int) -> None:
    """B-A7.2."""
    found = parse(header(18, version, b"me", b"\0" if version >= 3 else b""), ApiTable("2.1"))
    assert (found.version, found.body_offset) == (version, 13 if version >= 3 else 12)
    assert ApiTable("2.1").is_listed(18, version) == (0 <= version <= 2)


def test_an_unknown_api_versions_version_is_answered_in_version_0() -> None:
    """B-A7.2: error 35 and the one entry that lets the client choose."""
    table = ApiTable()
    found = parse(header(18, 5, b"me", b"\0"), table)
    response = ApiVersionsResponse(
        error_code=35,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
        throttle_time_ms=9,
    )
    parts = table.encode_response(found._replace(version=0), response)
    assert b"".join(parts) == bytes.fromhex("0000004d 0023 00000001 0012 0000 0004")


def test_a_response_header_has_a_tag_section_except_for_api_versions() -> None:
    """B-A7.1, B-B1.2."""
    table = ApiTable()
    plain, flexible = (parse(header(0, v, b"me", b"\0"), table) for v in (8, 9))
    assert b"".join(table.encode_response(plain, ProduceResponse())) == bytes.fromhex(
        "0000004d 00000000 00000000"
    )
    assert b"".join(table.encode_response(flexible, ProduceResponse())) == bytes.fromhex(
        "0000004d 00 01 00000000 00"
    )
    for version in (3, 4):
        found = parse(header(18, version, b"me", b"\0"), table)
        assert b"".join(table.encode_response(found, ApiVersionsResponse())) == bytes.fromhex(
            "0000004d 0000 01 00000000 00"
        )


def test_a_body_is_read_behind_its_header() -> None:
    """B-B1.2: a damaged one is refused by name; what lies behind it is nobody's."""
    table = ApiTable()
    frame = header(3, 4) + bytes.fromhex("00000001 0003 616263 00")
    found = parse(frame, table)
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name="abc")], allow_auto_topic_creation=False
    )
    assert table.decode_request(found, memoryview(frame)) == wanted
    assert table.decode_request(found, memoryview(frame + b"\0\1\2")) == wanted
    with pytest.raises(SchemaError, match=r"^allow_auto_topic_creation: "):
        table.decode_request(found, memoryview(frame)[:-1])
