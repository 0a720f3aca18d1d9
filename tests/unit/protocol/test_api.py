"""fastprod.protocol.api: headers, frames and vectors (P-G.5.2, P-G.9, P-J.1, P-J.5)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages import (
    api_versions,
    find_coordinator,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from fastprod.protocol.messages.transaction import (
    end_txn,
)
from support.oracle import kio_messages
from support.oracle.message_samples import APIS


def response_frame(api: Any, version: int, message: Any) -> bytes:
    """A response with correlation id 5, without the size prefix."""
    return b"".join(api.response.encode(version, message, api.response_head(version, 5)))


def end_txn_request(**changes: Any) -> end_txn.EndTxnRequest:
    values: dict[str, Any] = {
        "transactional_id": "t",
        "producer_id": 1,
        "producer_epoch": 2,
        "committed": True,
    }
    return end_txn.EndTxnRequest(**(values | changes))


def test_a_produce_request_of_version_13_is_the_vector() -> None:
    """P-J.5, without its records."""
    partition = produce.PartitionProduceData(index=1, records=memoryview(b"R" * 105))
    topic = produce.TopicProduceData(
        topic_id=bytes.fromhex("00112233445566778899aabbccddeeff"), partition_data=[partition]
    )
    message = produce.ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[topic]
    )
    expected = (
        "00000097 0000 000d 00000005 0002 6670 00 00 ffff 00007530 02"
        " 00112233445566778899aabbccddeeff 02 00000001 6a" + "52" * 105 + "00 00 00"
    )
    assert produce.API.request_frame(13, 5, "fp", message) == bytes.fromhex(expected)


def test_the_produce_response_vector_is_read_with_its_leader_hint() -> None:
    """P-J.5: NOT_LEADER with a tagged current leader and a tagged node endpoint (KIP-951)."""
    payload = bytes.fromhex(
        "00000005 00 02 08 746f7069632d61 02 00000001 0006 ffffffffffffffff ffffffffffffffff"
        " ffffffffffffffff 01 00 01 00 09 00000002 00000009 00 00 00000000 01 00 0e 02 00000002"
        " 03 6232 00002384 00 00"
    )
    correlation_id, message = produce.API.read_response(10, payload)
    assert correlation_id == 5
    (partition,) = message.responses[0].partition_responses
    assert partition.error_code == 6
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 9)
    (endpoint,) = message.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (2, "b2", 9092, None)


def test_defaults_are_left_out_of_the_tag_section() -> None:
    """P-J.1.2."""
    partition = produce.PartitionProduceResponse(index=1, error_code=0, base_offset=3)
    topic = produce.TopicProduceResponse(name="t", partition_responses=[partition])
    message = produce.ProduceResponse(responses=[topic])
    short = response_frame(produce.API, 10, message)
    partition.current_leader = produce.LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
    longer = response_frame(produce.API, 10, message)
    assert len(longer) == len(short) + 2 + 9
    _, found = produce.API.read_response(10, longer)
    assert found.responses[0].partition_responses[0].current_leader.leader_epoch == 4


def test_request_headers_differ_only_by_the_tag_section() -> None:
    """P-G.9: v2 iff flexible; the client id keeps its int16 length."""
    plain = end_txn.API.request_frame(2, 5, "fp", end_txn_request())
    assert plain == bytes.fromhex(
        "0000001a 001a 0002 00000005 0002 6670 0001 74 0000000000000001 0002 01"
    )
    flexible = end_txn.API.request_frame(3, 5, "fp", end_txn_request())
    assert flexible == bytes.fromhex(
        "0000001b 001a 0003 00000005 0002 6670 00 02 74 0000000000000001 0002 01 00"
    )
    assert end_txn.API.request_frame(3, 5, None, end_txn_request())[12:15] == b"\xff\xff\0"
    with pytest.raises(SchemaError, match="client_id: a string of 32768 bytes"):
        end_txn.API.request_frame(3, 5, "x" * 32_768, end_txn_request())


@pytest.mark.parametrize("key", sorted(APIS))
def test_the_flexible_versions_are_kafkas(key: int) -> None:
    """B-B1: request header 2 from there on, and response header 1 (but B-A7.1)."""
    api = APIS[key]
    for version in range(api.versions[0], api.versions[1] + 1):
        flexible = kio_messages.schema(key, version, "request").__flexible__
        assert kio_messages.schema(key, version, "response").__flexible__ == flexible
        assert api.has_flexible_request_header(version) == flexible
        assert api.has_flexible_response_header(version) == (flexible and key != 18)


def test_an_unknown_error_code_is_a_number_like_any_other() -> None:
    """P-F.4."""
    payload = response_frame(end_txn.API, 4, end_txn.EndTxnResponse(error_code=31_000))
    assert end_txn.API.read_response(4, payload)[1].error_code == 31_000


def test_only_api_versions_answers_with_the_oldest_header() -> None:
    """P-G.5.2, P-G.9."""
    ours = response_frame(api_versions.API, 4, api_versions.ApiVersionsResponse())
    assert ours == bytes.fromhex("00000005 0000 01 00000000 00")
    assert api_versions.API.read_response(4, ours)[0] == 5
    flexible = response_frame(end_txn.API, 3, end_txn.EndTxnResponse())
    assert flexible == bytes.fromhex("00000005 00 00000000 0000 00")
    message = sasl_handshake.SaslHandshakeResponse(mechanisms=["PLAIN"])
    handshake = response_frame(sasl_handshake.API, 1, message)
    assert handshake == bytes.fromhex("00000005 0000 00000001 0005 504c41494e")


def test_a_server_reads_the_request() -> None:
    """P-G.9."""
    api = sasl_authenticate.API
    message = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\x00user\x00secret")
    frame = api.request_frame(2, 2147483640, "fp", message)
    assert frame.startswith(bytes.fromhex("0000001b 0024 0002 7ffffff8 0002 6670 00 0d 00"))
    assert api.request.decode(2, frame, 17) == message


def test_what_does_not_fit_names_the_field() -> None:
    """P-J.1.5, on the way out."""
    assert end_txn.API.request_frame(3, 1, "fp", end_txn_request())[-2:] == b"\x01\x00"
    for name, value in (
        ("producer_epoch", 40_000),
        ("producer_epoch", None),
        ("producer_epoch", "2"),
        ("transactional_id", None),
        ("transactional_id", b"t"),
    ):
        with pytest.raises(SchemaError, match=f"^{name}: "):
            end_txn.API.request_frame(3, 1, "fp", end_txn_request(**{name: value}))


def test_every_cut_of_a_message_is_a_schema_error() -> None:
    """P-J.1.5: and never an abort of the process, as with kio's parser."""
    coordinator = find_coordinator.Coordinator(
        key="t", node_id=1, host="b1", port=9092, error_message="none"
    )
    message = find_coordinator.FindCoordinatorResponse(coordinators=[coordinator])
    api = find_coordinator.API
    payload = response_frame(api, 4, message)
    assert api.read_response(4, payload) == (5, message)
    assert api.read_response(4, payload + b"\xff") == (5, message)
    for size in range(len(payload)):
        with pytest.raises(SchemaError, match=f"^FindCoordinator response v4 of {size} bytes: "):
            api.read_response(4, payload[:size])
    huge = bytes.fromhex("00000005 00 00000000 ffffffff0f 00")
    with pytest.raises(SchemaError, match=r"coordinators: 4294967294 items stated.*, at byte 9$"):
        api.read_response(4, huge)
    null = bytes.fromhex("00000005 00 00000000 00 00")
    with pytest.raises(SchemaError, match="coordinators: null"):
        api.read_response(4, null)


@pytest.mark.parametrize("tags", ["", "01", "01 00", "01 00 05 00", "ffffffff0f", "ffffffffff"])
def test_a_damaged_header_is_a_schema_error(tags: str) -> None:
    """P-J.1.5."""
    with pytest.raises(SchemaError, match=r"^EndTxn response v3 of \d+ bytes: "):
        end_txn.API.read_response(3, bytes.fromhex("00000005" + tags))


def test_unknown_tags_of_the_header_are_skipped() -> None:
    """P-J.1.1."""
    payload = bytes.fromhex("00000005 01 07 02 aabb 00000000 0003 00")
    assert end_txn.API.read_response(3, payload)[1].error_code == 3


def test_versions_that_no_table_knows_are_unsupported() -> None:
    """P-J.1.5."""
    with pytest.raises(UnsupportedVersionError, match=r"EndTxn of version 99: .* 0 to 5"):
        end_txn.API.request_frame(99, 1, None, end_txn_request())
    with pytest.raises(UnsupportedVersionError, match="EndTxn of version -1"):
        end_txn.API.read_response(-1, b"")


def test_a_producer_imports_three_messages_and_no_other_library() -> None:
    """design.md 3."""
    code = (
        "import sys; import fastprod; import fastprod.client.network_client;"
        " names = [name for name in sys.modules if name.startswith('fastprod.protocol.messages.')];"
        " assert sorted(name.rpartition('.')[2] for name in names) =="
        " ['api_versions', 'init_producer_id', 'metadata'], names;"
        " assert not {'kio', 'fastprod.broker', 'kafka'} & set(sys.modules)"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=root)
