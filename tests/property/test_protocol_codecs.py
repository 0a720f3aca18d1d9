"""fastprod's codecs against kio's own writers: every version the client speaks (J.1, J.2, J.4)."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import UnknownEntity

from fastprod import protocol
from fastprod.api_versions import API_VERSIONS, CLIENT_VERSIONS, METADATA, retry_version
from fastprod.frames import SchemaError
from oracle import kio_messages

MESSAGES = [
    (api_key, version, direction)
    for api_key, (low, high) in CLIENT_VERSIONS.items()
    for version in range(low, high + 1)
    for direction in ("request", "response")
]
HEADER_WITH_TAGS = {True: b"\x00\x00\x00\x05\x00", False: b"\x00\x00\x00\x05"}


@functools.cache
def message_pairs(api_key: int, version: int, direction: str) -> Any:
    return kio_messages.messages(kio_messages.schema(api_key, version, direction))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_every_message_is_written_and_read_as_kio_writes_it(data: st.DataObject) -> None:
    """G.9, J.1, J.1.2."""
    api_key, version, direction = data.draw(st.sampled_from(MESSAGES))
    plain, rich = data.draw(message_pairs(api_key, version, direction))
    body = kio_messages.encoded(rich)
    flexible = rich.__flexible__
    if direction == "request":
        frame = protocol.encode_request(api_key, version, 5, "fp", plain)
        head = 4 + 8 + 4 + flexible
        header, decoded = protocol.decode_request(frame[4:])
        assert header == (api_key, version, 5, "fp")
    else:
        frame = protocol.encode_response(api_key, version, 5, plain)
        head = 4 + 4 + (flexible and api_key != API_VERSIONS)
        _, decoded = protocol.decode_response(api_key, version, frame[4:])
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[head:] == body
    assert kio_messages.plain(decoded) == plain


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_metadata_responses_are_read_as_kio_wrote_them(data: st.DataObject) -> None:
    """J.4."""
    low, high = CLIENT_VERSIONS[METADATA]
    version = data.draw(st.integers(low, high))
    plain, rich = data.draw(message_pairs(METADATA, version, "response"))
    payload = HEADER_WITH_TAGS[version >= 9] + kio_messages.encoded(rich)
    response = protocol.parse_metadata_response(version, payload)
    assert response.throttle_ms == plain["throttle_time"]
    assert response.error_code == plain.get("error_code", 0)
    assert (response.cluster_id, response.controller_id) == (
        plain["cluster_id"],
        plain["controller_id"],
    )
    assert [tuple(node) for node in response.brokers] == [
        (b["node_id"], b["host"], b["port"], b["rack"]) for b in plain["brokers"]
    ]
    for topic, wanted in zip(response.topics, plain["topics"], strict=True):
        assert topic.error_code == wanted["error_code"]
        assert topic.name == (wanted["name"] or "")
        assert topic.topic_id == wanted.get("topic_id", bytes(16))
        assert topic.is_internal == wanted["is_internal"]
        for partition, expected in zip(topic.partitions, wanted["partitions"], strict=True):
            assert tuple(partition) == (
                expected["error_code"],
                expected["partition_index"],
                expected["leader_id"],
                expected.get("leader_epoch", -1),
                expected["replica_nodes"],
                expected["isr_nodes"],
                expected.get("offline_replicas", ()),
            )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_api_versions_answers_are_read_as_kio_wrote_them(data: st.DataObject) -> None:
    """G.5.2, G.5.6, J.4."""
    version = data.draw(st.integers(0, 4))
    plain, rich = data.draw(message_pairs(API_VERSIONS, version, "response"))
    if plain["error_code"] == 35 and version > 0:
        return
    payload = HEADER_WITH_TAGS[False] + kio_messages.encoded(rich)
    correlation_id, answer = protocol.parse_api_versions_response(version, payload)
    assert correlation_id == 5
    assert answer.error_code == plain["error_code"]
    assert answer.throttle_ms == plain.get("throttle_time", 0)
    assert answer.versions == {
        a["api_key"]: (a["min_version"], a["max_version"]) for a in plain["api_keys"]
    }
    assert answer.finalized_features == {
        f["name"]: f["max_version_level"] for f in plain.get("finalized_features", ())
    }
    assert answer.finalized_features_epoch == plain.get("finalized_features_epoch", -1)


@given(
    st.integers(3, 4),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=10) | st.none(),
    st.from_regex(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", fullmatch=True),
)
def test_api_versions_requests_are_what_kio_writes(
    version: int, correlation_id: int, client_id: str | None, name: str
) -> None:
    """G.5.1, G.9."""
    frame = protocol.api_versions_request(version, correlation_id, client_id, name, "1.0")
    header, message = protocol.decode_request(frame[4:])
    assert header == (API_VERSIONS, version, correlation_id, client_id)
    kind = kio_messages.schema(API_VERSIONS, version, "request")
    assert frame.endswith(
        b"\x00"
        + kio_messages.encoded(kind(client_software_name=name, client_software_version="1.0"))
    )
    assert (message.client_software_name, message.client_software_version) == (name, "1.0")


@given(st.integers(1, 4), st.binary(max_size=60))
def test_any_body_with_error_35_leads_to_a_lower_version(version: int, body: bytes) -> None:
    """G.5.3 [dev]: some servers answer with a body that is of no version."""
    payload = HEADER_WITH_TAGS[False] + b"\x00\x23" + body
    _, answer = protocol.parse_api_versions_response(version, payload)
    retry = retry_version(version, answer)
    assert retry is not None
    assert 0 <= retry < version


@settings(max_examples=300, deadline=None)
@given(st.data(), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_as_a_schema_error(
    data: st.DataObject, payload: bytes
) -> None:
    """J.1.5: a damaged frame costs its connection, never more."""
    api_key, version, direction = data.draw(st.sampled_from(MESSAGES))
    fixed = {
        METADATA: protocol.parse_metadata_response,
        API_VERSIONS: protocol.parse_api_versions_response,
    }
    try:
        if direction == "response":
            protocol.decode_response(api_key, version, payload)
            if api_key in fixed:
                fixed[api_key](version, payload)
        else:
            header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big")
            protocol.decode_request(header + payload)
    except SchemaError:
        pass


def test_the_oracle_knows_every_message() -> None:
    for api_key, version, direction in MESSAGES:
        kio_messages.schema(api_key, version, direction)
    with pytest.raises(UnknownEntity):
        kio_messages.schema(METADATA, 99, "request")
