"""DescribeConfigs: what tools read (D4.8)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_world import BrokerWorld
from fastprod.broker import codes
from fastprod.broker.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from fastprod.broker.topic_config import TopicConfig


def describe(
    world: BrokerWorld, kind: int, name: str, keys: list[str] | None = None, version: int = 4
) -> Any:
    message = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    return world.ask("DescribeConfigs", version, message).results[0]


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_have_a_value_and_a_source(version: int) -> None:
    with BrokerWorld(message_max_bytes=5000) as world:
        world.state.topics.create("t", config={"retention.ms": "7"})
        found = {each.name: each for each in describe(world, 2, "t", version=version).configs}
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("7", 1)
    assert (found["max.message.bytes"].value, found["max.message.bytes"].config_source) == (
        "5000",
        4,
    )
    assert found["segment.bytes"].config_source == 5
    assert not any(each.is_sensitive or each.read_only for each in found.values())
    synonyms = [(each.name, each.source) for each in found["retention.ms"].synonyms]
    assert synonyms == [("retention.ms", 1), ("log.retention.ms", 5)]
    if version >= 3:
        assert found["retention.ms"].config_type == 5
        assert all(each.documentation for each in found.values())


def test_a_nodes_settings_are_read_only() -> None:
    with BrokerWorld(brokers=2, num_partitions=4) as world:
        found = {each.name: each for each in describe(world, 4, "1").configs}
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("4", 4)
    assert (found["node.id"].value, found["auto.create.topics.enable"].value) == ("1", "true")
    assert found["fetch.wait.cap.ms"].value is None
    assert all(each.read_only for each in found.values())


def test_only_the_settings_asked_for_are_told() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        result = describe(world, 2, "t", ["retention.ms", "no.such"])
        assert [each.name for each in result.configs] == ["retention.ms"]
        assert describe(world, 4, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "unknown", codes.UNKNOWN_TOPIC_OR_PARTITION),
        (4, "7", codes.INVALID_REQUEST),
        (4, "x", codes.INVALID_REQUEST),
        (8, "0", codes.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_has_an_error(kind: int, name: str, code: int) -> None:
    with BrokerWorld() as world:
        result = describe(world, kind, name)
    assert (result.error_code, result.resource_name, result.configs) == (code, name, [])
    assert result.error_message


def test_what_a_resource_raises_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """B9"""

    def fails(self: object) -> None:
        raise RuntimeError("a mistake")

    with BrokerWorld(topics={"t": 1}) as world:
        monkeypatch.setattr(TopicConfig, "entries", fails)
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in ((2, "t"), (4, "0"))
        ]
        message = DescribeConfigsRequest(resources=resources)
        found = world.ask("DescribeConfigs", 4, message).results
    assert [each.error_code for each in found] == [codes.UNKNOWN_SERVER_ERROR, codes.NONE]
    assert "a mistake" in found[0].error_message
