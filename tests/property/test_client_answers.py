"""What the client makes of answers that kio wrote, and of damaged ones (P-G.5, P-J.1, P-J.4)."""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.client.connections.api_versions import (
    CLIENT_VERSIONS,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
)
from fastprod.client.metadata.metadata_answer import read_metadata
from fastprod.client.producer_id import read_producer_id
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA
from fastprod.protocol.field_types import SchemaError
from support.oracle import kio_codec, kio_messages
from support.processes.scale import examples

HEADER_WITH_TAGS = {True: b"\x00\x00\x00\x05\x00", False: b"\x00\x00\x00\x05"}


@functools.cache
def response_pairs(api_key: int, version: int) -> Any:
    return kio_messages.messages(kio_messages.schema(api_key, version, "response"))


@settings(max_examples=examples(150))
@given(st.data())
def test_metadata_responses_are_read_as_kio_wrote_them(data: st.DataObject) -> None:
    """P-J.4."""
    low, high = CLIENT_VERSIONS[METADATA]
    version = data.draw(st.integers(low, high))
    plain, rich = data.draw(response_pairs(METADATA, version))
    payload = HEADER_WITH_TAGS[version >= 9] + kio_messages.encoded(rich)
    response = read_metadata(version, payload)
    assert response.throttle_time_ms == plain["throttle_time"]
    assert response.error_code == plain.get("error_code", 0)
    assert (response.cluster_id, response.controller_id) == (
        plain["cluster_id"],
        plain["controller_id"],
    )
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (b["node_id"], b["host"], b["port"], b["rack"]) for b in plain["brokers"]
    ]
    for topic, wanted in zip(response.topics, plain["topics"], strict=True):
        assert topic.error_code == wanted["error_code"]
        assert topic.name == wanted["name"]
        assert topic.topic_id == wanted.get("topic_id", bytes(16))
        assert topic.is_internal == wanted["is_internal"]
        for partition, expected in zip(topic.partitions, wanted["partitions"], strict=True):
            assert tuple(partition) == (
                expected["error_code"],
                expected["partition_index"],
                expected["leader_id"],
                expected["leader_epoch"] if version >= 9 else -1,
                expected["replica_nodes"],
                expected["isr_nodes"],
                expected.get("offline_replicas", ()),
            )


@settings(max_examples=examples(150))
@given(st.data())
def test_api_versions_answers_are_read_as_kio_wrote_them(data: st.DataObject) -> None:
    """P-G.5.2, P-G.5.6, P-J.4."""
    version = data.draw(st.integers(0, 4))
    plain, rich = data.draw(response_pairs(API_VERSIONS, version))
    if plain["error_code"] == 35 and version > 0:
        return
    payload = HEADER_WITH_TAGS[False] + kio_messages.encoded(rich)
    correlation_id, answer = parse_api_versions_response(version, payload)
    assert correlation_id == 5
    assert answer.error_code == plain["error_code"]
    assert answer.throttle_ms == plain.get("throttle_time", 0)
    assert answer.versions == {
        a["api_key"]: (a["min_version"], a["max_version"]) for a in plain["api_keys"]
    }


@given(
    st.integers(3, 4),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=10) | st.none(),
    st.from_regex(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", fullmatch=True),
)
def test_api_versions_requests_are_what_kio_writes(
    version: int, correlation_id: int, client_id: str | None, name: str
) -> None:
    """P-G.5.1, P-G.9."""
    frame = api_versions_request(version, correlation_id, client_id, name, "1.0")
    header, message = kio_codec.decode_request(frame[4:])
    assert header == (API_VERSIONS, version, correlation_id, client_id)
    kind = kio_messages.schema(API_VERSIONS, version, "request")
    assert frame.endswith(
        b"\x00"
        + kio_messages.encoded(kind(client_software_name=name, client_software_version="1.0"))
    )
    assert (message.client_software_name, message.client_software_version) == (name, "1.0")


@given(st.integers(1, 4), st.binary(max_size=60))
def test_any_body_with_error_35_leads_to_a_lower_version(version: int, body: bytes) -> None:
    """P-G.5.3: some servers answer with a body that is of no version."""
    payload = HEADER_WITH_TAGS[False] + b"\x00\x23" + body
    _, answer = parse_api_versions_response(version, payload)
    retry = retry_version(version, answer)
    assert retry is not None
    assert 0 <= retry < version


@settings(max_examples=examples(300))
@given(st.data(), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_as_a_schema_error(
    data: st.DataObject, payload: bytes
) -> None:
    """P-J.1.5: a damaged frame costs its connection, never more."""
    readers = {
        METADATA: read_metadata,
        API_VERSIONS: parse_api_versions_response,
        INIT_PRODUCER_ID: read_producer_id,
    }
    api_key = data.draw(st.sampled_from(sorted(readers)))
    version = data.draw(st.integers(*CLIENT_VERSIONS[api_key]))
    with suppress(SchemaError):
        readers[api_key](version, payload)
