"""fastprod.client.connections.api_versions: P-G.5, P-G.8, P-J.4, P-J.5; P-L.164, P-L.178."""

from __future__ import annotations

import pytest

from fastprod.client.connections.api_versions import (
    ApiVersions,
    api_versions_request,
    parse_api_versions_response,
    pick_version,
    retry_version,
    software_identifier,
    throttles_after_reply,
)
from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.protocol.field_types import SchemaError


def test_request_version_4_is_the_vector() -> None:
    """P-J.5."""
    frame = api_versions_request(4, 0, "fp", "fastprod", "1.0")
    assert frame == bytes.fromhex(
        "0000001b 0012 0004 00000000 0002 6670 00 09 6661737470726f64 04 312e30 00"
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_requests_have_no_body(version: int) -> None:
    """P-J.4, P-G.9."""
    frame = api_versions_request(version, 7, None, "fastprod", "1.0")
    assert frame == bytes.fromhex(f"0000000a 0012 000{version} 00000007 ffff")


def test_requests_brokers_would_refuse_are_refused_here() -> None:
    """P-G.5.1: the pattern for name and version."""
    for name, version in (("", "1"), ("-a", "1"), ("a", "1+local"), ("a.", "1")):
        with pytest.raises(ValueError, match="client software"):
            api_versions_request(3, 0, "fp", name, version)
    with pytest.raises(UnsupportedVersionError, match="version 5"):
        api_versions_request(5, 0, "fp", "fastprod", "1.0")


def test_a_software_identifier_is_made_of_any_text() -> None:
    """P-G.5.1."""
    assert software_identifier("fastprod") == "fastprod"
    assert software_identifier("0.1.0+g12 ab") == "0.1.0-g12-ab"
    assert software_identifier("_x_") == "x"
    assert software_identifier("++") == "unknown"


def test_an_answer_of_version_4_gives_ranges_features_and_throttle_time() -> None:
    """P-I.7.1, P-G.5.2: no tag section in the header. P-G.5.6: unknown tags are skipped. P-J.4."""
    payload = bytes.fromhex(
        "00000009 0000 03 0000 0000 000d 00 0012 0000 0004 01 05 02 aabb 00000064"
        " 04 00 01 01"
        " 01 08 0000000000000007"
        " 02 1a 02 14 7472616e73616374696f6e2e76657273696f6e 0002 0001 00"
        " 07 03 010203"
    )
    correlation_id, answer = parse_api_versions_response(4, payload)
    assert correlation_id == 9
    assert dict(answer.versions) == {PRODUCE: (0, 13), API_VERSIONS: (0, 4)}
    assert (answer.error_code, answer.throttle_ms) == (0, 100)
    assert (dict(answer.features), answer.features_epoch) == ({"transaction.version": 2}, 7)


@pytest.mark.parametrize(
    ("version", "tail", "throttle_ms"), [(0, "", 0), (1, "00000005", 5), (2, "00000005", 5)]
)
def test_answers_of_old_versions(version: int, tail: str, throttle_ms: int) -> None:
    """P-J.4; trailing bytes are tolerated (P-J.1.4)."""
    payload = bytes.fromhex("00000001 0000 00000001 0003 0001 0009" + tail + "ffff")
    _, answer = parse_api_versions_response(version, payload)
    assert answer == ApiVersions({METADATA: (1, 9)}, 0, throttle_ms)


def test_error_35_is_read_as_version_0_and_names_the_version_to_retry() -> None:
    """P-G.5.3; P-L.164 testUnsupportedApiVersionsRequestWithVersionProvidedByTheBroker: 4, then
    2.
    """
    payload = bytes.fromhex("00000001 0023 00000001 0012 0000 0002")
    _, answer = parse_api_versions_response(4, payload)
    assert answer.error_code == 35
    assert retry_version(4, answer) == 2


@pytest.mark.parametrize(
    "body",
    ["", "00000000", "02 0012 0000 0003 00 00000000 00", "7fffffff", "00000001 0012", "ffffffff"],
)
def test_error_35_without_usable_body_retries_with_version_0(body: str) -> None:
    """P-G.5.3, and its [dev]; P-L.164 testUnsupportedApiVersionsRequestWithout...: 4, then 0."""
    _, answer = parse_api_versions_response(4, bytes.fromhex("00000001 0023" + body))
    assert answer.error_code == 35
    assert retry_version(4, answer) == 0


def test_a_broker_that_lists_what_it_refused_is_asked_with_version_0() -> None:
    """P-G.5.3: else the two would go on like that forever."""
    answer = ApiVersions({API_VERSIONS: (0, 4)}, error_code=35)
    assert retry_version(4, answer) == 0
    assert retry_version(3, answer) == 0


def test_other_errors_and_errors_at_version_0_end_the_connection() -> None:
    """P-G.5.3; P-L.164 testInvalidApiVersionsRequest: not ready, closed."""
    assert retry_version(0, ApiVersions({API_VERSIONS: (0, 2)}, error_code=35)) is None
    assert retry_version(4, ApiVersions({}, error_code=42)) is None


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "00000001",
        "00000001 0000",
        "00000001 0000 00",
        "00000001 0000 05 0000 0000 0009 00",
        "00000001 0000 02 0000 0000 0009 00 00000000 01 01 02 0000",
        "00000001 0000 02 0000 0000 0009 00 00000000 01 02 02 ff01",
    ],
)
def test_a_damaged_answer_is_a_schema_error(payload: str) -> None:
    """P-J.1.5."""
    with pytest.raises(SchemaError, match="ApiVersions response v4"):
        parse_api_versions_response(4, bytes.fromhex(payload))


def test_an_answer_that_is_known_is_not_read_again() -> None:
    """Whatever the correlation id; a large one is not kept."""
    body = bytes.fromhex("0000 00000001 0003 0000 000d")
    first = parse_api_versions_response(0, bytes.fromhex("00000001") + body)
    second = parse_api_versions_response(0, bytes.fromhex("fffffffe") + body)
    assert (first[0], second[0]) == (1, -2)
    assert first[1] is second[1]
    assert first[1].versions == {METADATA: (0, 13)}
    other = parse_api_versions_response(1, bytes.fromhex("00000001") + body + bytes(4))
    assert other[1].versions == first[1].versions
    large = bytes.fromhex("00000001") + body + bytes(5_000)
    assert parse_api_versions_response(0, large) == first
    assert parse_api_versions_response(0, large)[1] is not parse_api_versions_response(0, large)[1]


def test_the_highest_common_version_is_picked() -> None:
    """P-G.5.4; P-L.178 NodeApiVersionsTest."""
    assert pick_version(PRODUCE, (0, 13)) == 13
    assert pick_version(PRODUCE, (0, 9)) == 9
    assert pick_version(PRODUCE, (5, 99)) == 13
    assert pick_version(PRODUCE, (8, 20), (7, 8)) == 8
    assert ApiVersions({METADATA: (0, 12)}).pick(METADATA) == 12


@pytest.mark.parametrize(
    ("api_key", "broker", "client", "said"),
    [
        (PRODUCE, (0, 2), None, "Produce: the broker offers 0 to 2, the client speaks 3 to 13"),
        (PRODUCE, (14, 15), None, "14 to 15"),
        (INIT_PRODUCER_ID, None, None, "does not offer InitProducerId"),
        (999, (0, 1), None, "API 999"),
        (999, (3, 4), (1, 2), "API 999: the broker offers 3 to 4, the client speaks 1 to 2"),
    ],
)
def test_no_common_version_is_an_error_with_both_ranges(
    api_key: int, broker: tuple[int, int] | None, client: tuple[int, int] | None, said: str
) -> None:
    """P-G.5.4; P-L.178 NodeApiVersionsTest: UnsupportedVersion outside the range."""
    with pytest.raises(UnsupportedVersionError, match=said):
        pick_version(api_key, broker, client)


def test_a_broker_throttles_after_its_answer_from_a_certain_version_on() -> None:
    """P-G.8, KIP-219."""
    first = {0: 6, 3: 6, 10: 2, 18: 2, 19: 3, 22: 1, 24: 1, 25: 1, 26: 1, 28: 1}
    for api_key, version in first.items():
        assert throttles_after_reply(api_key, version)
        assert not throttles_after_reply(api_key, version - 1)
    assert not throttles_after_reply(17, 1)
