"""fastprod.protocol: messages by way of kio's schemas (G.9, J.1, J.5)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fastprod import protocol
from fastprod.errors import UnsupportedVersionError
from fastprod.frames import RequestHeader, SchemaError


def test_the_generic_encoder_writes_the_vectors_too() -> None:
    """J.5: Metadata v12 and v8, InitProducerId v4, by another way than fastprod.messages."""
    flags = {
        8: {"include_cluster_authorized_operations", "include_topic_authorized_operations"},
        12: {"include_topic_authorized_operations"},
    }
    for version in (4, 8, 9, 12, 13):
        wanted = flags[12] if version > 10 else flags[8] if version >= 8 else set()
        topics = {"topics": [{"name": "topic-a"}], **dict.fromkeys(wanted, False)}
        assert protocol.encode_request(3, version, 5, "fp", topics) == protocol.metadata_request(
            version, 5, "fp", ["topic-a"]
        )
    message: Mapping[str, Any] = {"transactional_id": None, "transaction_timeout": 2**31 - 1}
    for version in range(6):
        assert protocol.encode_request(
            22, version, 5, "fp", message
        ) == protocol.init_producer_id_request(version, 5, "fp")


def test_a_produce_request_of_version_13_is_the_vector() -> None:
    """J.5, without its records."""
    frame = protocol.encode_request(
        0,
        13,
        5,
        "fp",
        {
            "transactional_id": None,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [
                {
                    "topic_id": bytes.fromhex("00112233445566778899aabbccddeeff"),
                    "partition_data": [{"index": 1, "records": b"R" * 105}],
                }
            ],
        },
    )
    expected = (
        "00000097 0000 000d 00000005 0002 6670 00 00 ffff 00007530 02"
        " 00112233445566778899aabbccddeeff 02 00000001 6a" + "52" * 105 + "00 00 00"
    )
    assert frame == bytes.fromhex(expected)


def test_the_produce_response_vector_is_read_with_its_leader_hint() -> None:
    """J.5: NOT_LEADER with a tagged current leader and a tagged node endpoint (KIP-951)."""
    payload = bytes.fromhex(
        "00000005 00 02 08 746f7069632d61 02 00000001 0006 ffffffffffffffff ffffffffffffffff"
        " ffffffffffffffff 01 00 01 00 09 00000002 00000009 00 00 00000000 01 00 0e 02 00000002"
        " 03 6232 00002384 00 00"
    )
    correlation_id, message = protocol.decode_response(0, 10, payload)
    assert correlation_id == 5
    (partition,) = message.responses[0].partition_responses
    assert partition.error_code == 6
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 9)
    (endpoint,) = message.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (2, "b2", 9092, None)


def test_defaults_are_left_out_of_the_tag_section() -> None:
    """J.1.2."""
    partition: dict[str, Any] = {
        "index": 0,
        "error_code": 0,
        "base_offset": 1,
        "record_errors": [],
        "error_message": None,
    }
    message = {
        "responses": [{"name": "t", "partition_responses": [partition]}],
        "throttle_time": 7,
    }
    frame = protocol.encode_response(0, 10, 5, message)
    _, decoded = protocol.decode_response(0, 10, frame[4:])
    (answer,) = decoded.responses[0].partition_responses
    assert answer.current_leader.leader_id == -1
    assert answer.log_append_time == -1
    assert decoded.throttle_time == 7
    assert decoded.node_endpoints == ()
    partition["current_leader"] = {"leader_id": 3, "leader_epoch": 4}
    longer = protocol.encode_response(0, 10, 5, message)
    assert len(longer) == len(frame) + 2 + 9
    _, decoded = protocol.decode_response(0, 10, longer[4:])
    assert decoded.responses[0].partition_responses[0].current_leader.leader_epoch == 4


def test_an_unknown_error_code_is_a_number_like_any_other() -> None:
    """F.4: kio's own parser refuses the response."""
    frame = protocol.encode_response(26, 4, 5, {"throttle_time": 0, "error_code": 31_000})
    _, message = protocol.decode_response(26, 4, frame[4:])
    assert message.error_code == 31_000


def test_only_api_versions_answers_with_the_oldest_header() -> None:
    """G.5.2, G.9."""
    ours = protocol.encode_response(18, 4, 5, {"error_code": 0, "api_keys": [], "throttle_time": 0})
    assert ours == bytes.fromhex("0000000c 00000005 0000 01 00000000 00")
    assert protocol.decode_response(18, 4, ours[4:])[0] == 5
    flexible = protocol.encode_response(26, 3, 5, {"throttle_time": 0, "error_code": 0})
    assert flexible == bytes.fromhex("0000000c 00000005 00 00000000 0000 00")
    handshake = protocol.encode_response(17, 1, 5, {"error_code": 0, "mechanisms": ["PLAIN"]})
    assert handshake == bytes.fromhex("00000011 00000005 0000 00000001 0005 504c41494e")


def test_a_server_reads_header_and_request() -> None:
    """G.9."""
    frame = protocol.encode_request(36, 2, 2147483640, "fp", {"auth_bytes": b"\x00user\x00secret"})
    header, message = protocol.decode_request(frame[4:])
    assert header == RequestHeader(36, 2, 2147483640, "fp")
    assert message.auth_bytes == b"\x00user\x00secret"
    assert protocol.request_header(frame[4:]) == header
    assert protocol.request_header(bytes.fromhex("7fff 0001 00000002 ffff"))[3] is None


def test_what_does_not_fit_names_the_api_and_the_field() -> None:
    """J.1.5, on the way out: nothing is guessed, least of all whether to commit."""
    good: dict[str, Any] = {
        "transactional_id": "t",
        "producer_id": 1,
        "producer_epoch": 2,
        "committed": True,
    }
    assert protocol.encode_request(26, 3, 1, "fp", good)[-2:] == b"\x01\x00"
    for change, said in (
        ({"commited": True}, "EndTxn v3: no field commited"),
        ({"producer_epoch": 40_000}, "EndTxn v3: producer_epoch: value 40000"),
        ({"producer_epoch": None}, "EndTxn v3: producer_epoch: null"),
        ({"producer_epoch": "2"}, "EndTxn v3: producer_epoch: value '2'"),
        ({"transactional_id": None}, "EndTxn v3: transactional_id: null"),
        ({"transactional_id": b"t"}, "EndTxn v3: transactional_id"),
    ):
        with pytest.raises(ValueError, match=said):
            protocol.encode_request(26, 3, 1, "fp", {**good, **change})
    for name in good:
        less = {key: value for key, value in good.items() if key != name}
        with pytest.raises(ValueError, match=f"EndTxn v3: field {name} is missing"):
            protocol.encode_request(26, 3, 1, "fp", less)


def test_every_cut_of_a_message_is_a_schema_error() -> None:
    """J.1.5: and never an abort of the process, as with kio's parser."""
    frame = protocol.encode_response(
        10,
        4,
        5,
        {
            "throttle_time": 0,
            "coordinators": [
                {"key": "t", "node_id": 1, "host": "b1", "port": 9092, "error_code": 0}
                | {"error_message": "none"}
            ],
        },
    )
    assert protocol.decode_response(10, 4, frame[4:])[1].coordinators[0].host == "b1"
    for size in range(4, len(frame)):
        with pytest.raises(SchemaError, match="FindCoordinator response v4"):
            protocol.decode_response(10, 4, frame[4:size])
    huge = bytes.fromhex("00000005 00 00000000 ffffffff0f 00")
    with pytest.raises(SchemaError, match="array of"):
        protocol.decode_response(10, 4, huge)
    null = bytes.fromhex("00000005 00 00000000 00 00")
    with pytest.raises(SchemaError, match="null array coordinators"):
        protocol.decode_response(10, 4, null)


def test_messages_without_schema_are_unsupported_versions() -> None:
    """J.1.5."""
    with pytest.raises(UnsupportedVersionError, match="EndTxn request of version 99"):
        protocol.encode_request(26, 99, 1, None, {})
    with pytest.raises(UnsupportedVersionError, match="API 9999 response of version 0"):
        protocol.decode_response(9999, 0, b"")


def test_importing_the_protocol_does_not_import_kio() -> None:
    """design.md 3: kio is imported at the first message that needs it."""
    code = (
        "import sys; from fastprod import protocol as p;"
        " p.metadata_request(12, 1, 'fp', ['t']); p.init_producer_id_request(4, 1, 'fp');"
        " p.parse_metadata_response(4, bytes(22)); assert 'kio' not in sys.modules;"
        " p.decode_response(26, 0, bytes(10)); assert 'kio' in sys.modules"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=root)
