"""ApiVersions in all points of B-A7."""

from __future__ import annotations

import struct

import pytest

from fastprod.broker.api_table import APIS, ApiTable
from fastprod.error_codes import INVALID_REQUEST, NONE
from fastprod.protocol.messages.api_versions import ApiVersionsRequest
from support.broker.world import BrokerWorld

SOFTWARE = ApiVersionsRequest(client_software_name="some-client", client_software_version="1.2")


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_the_same(version: int) -> None:
    with BrokerWorld() as world:
        answer = world.ask("ApiVersions", version, SOFTWARE)
    listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert answer.error_code == NONE
    # B-B1.1: Produce is listed from 0, whatever is served.
    assert listed[0] == (0, 13)
    assert listed[18] == (0, 4)
    assert listed[60] == (0, 2)
    levels = [
        (each.name, each.min_version_level, each.max_version_level)
        for each in answer.finalized_features
    ]
    supported = [
        (each.name, each.min_version, each.max_version) for each in answer.supported_features
    ]
    # B-A7.4: a feature whose minimum is 0 breaks old Java clients.
    features = [("group.version", 1), ("transaction.version", 2)]
    assert supported == ([(name, 0, level) for name, level in features] if version >= 4 else [])
    assert levels == ([(name, level, level) for name, level in features] if version >= 3 else [])
    assert answer.finalized_features_epoch == (0 if version >= 3 else -1)


@pytest.mark.parametrize(
    "table",
    [
        ApiTable("3.0"),
        ApiTable(versions={"Produce": 11}),
        ApiTable(versions={"EndTxn": 4}),
        ApiTable(versions={"TxnOffsetCommit": 4}),
    ],
)
def test_without_what_kip_890_needs_its_level_is_not_told(table: ApiTable) -> None:
    """B-A7.4, B-B1.1"""
    with BrokerWorld(table=table) as world:
        answer = world.ask("ApiVersions", 3, SOFTWARE)
    names = [each.name for each in answer.finalized_features]
    assert names == (["group.version"] if table.group_version else [])


@pytest.mark.parametrize(
    "table", [ApiTable("3.0"), ApiTable(versions={"ConsumerGroupHeartbeat": None})]
)
def test_without_what_kip_848_needs_its_level_is_not_told(table: ApiTable) -> None:
    """B-E3, B-B1.1"""
    with BrokerWorld(table=table) as world:
        answer = world.ask("ApiVersions", 3, SOFTWARE)
    assert "group.version" not in [each.name for each in answer.finalized_features]


@pytest.mark.parametrize("version", range(5))
def test_the_header_of_the_answer_is_never_flexible(version: int) -> None:
    """B-A7.1: the byte behind the correlation id is the error code's, not a tag count."""
    with BrokerWorld() as world:
        raw = world.post("ApiVersions", version, SOFTWARE).raw
    assert struct.unpack_from(">ih", raw) == (7, NONE)
    count = struct.unpack_from(">i", raw, 6)[0] if version < 3 else raw[6] - 1
    assert count == len(APIS)


def test_a_newer_version_gets_error_35_and_the_one_entry_it_needs_in_version_0() -> None:
    """B-A7.2, KIP-511: these 16 bytes, whatever was asked."""
    with BrokerWorld() as world:
        raw = world.post_bytes("ApiVersions", 5, b"whatever version 5 holds").raw
    assert raw == struct.pack(">ihihhh", 7, 35, 1, 18, 0, 4)


def test_a_pinned_list_refuses_what_it_does_not_hold() -> None:
    with BrokerWorld(table=ApiTable(versions={"ApiVersions": 2})) as world:
        raw = world.post("ApiVersions", 3, SOFTWARE).raw
        assert raw == struct.pack(">ihihhh", 7, 35, 1, 18, 0, 2)
        assert world.ask("ApiVersions", 2, SOFTWARE).error_code == NONE


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a b", "1"), ("a", "1\n"), ("\u00e4", "1")],
)
def test_a_strange_name_of_the_client_is_an_invalid_request(name: str, version: str) -> None:
    """B-A7.3"""
    asked = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    with BrokerWorld() as world:
        answer = world.ask("ApiVersions", 3, asked)
        assert (answer.error_code, answer.api_keys) == (INVALID_REQUEST, [])
        # The fields are not there below version 3.
        assert world.ask("ApiVersions", 2, asked).error_code == NONE


@pytest.mark.parametrize(("name", "version"), [("a", "1"), ("a.b-c9", "2.16.1-rdkafka-2.16.0")])
def test_a_usual_name_of_the_client_is_taken(name: str, version: str) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    with BrokerWorld() as world:
        assert world.ask("ApiVersions", 4, asked).error_code == NONE
