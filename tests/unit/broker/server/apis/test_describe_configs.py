"""DescribeConfigs: what tools read (B-D4.8)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.error_codes import (
    INVALID_REQUEST,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from support.broker.world import BrokerWorld


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


def test_a_nodes_settings_are_read_only_but_for_limits_of_connections() -> None:
    with BrokerWorld(brokers=2, num_partitions=4) as world:
        found = {each.name: each for each in describe(world, 4, "1").configs}
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("4", 4)
    assert (found["node.id"].value, found["auto.create.topics.enable"].value) == ("1", "true")
    assert found["fetch.wait.cap.ms"].value is None
    assert {name for name, each in found.items() if not each.read_only} == {
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.connection.creation.rate",
    }


def test_a_changed_setting_tells_what_holds_and_what_it_hides() -> None:
    """B-D4.8, B-D4.9."""
    name, of_listener = "max.connections", "listener.name.plaintext.max.connections"
    with BrokerWorld(brokers=2, max_connections=70) as world:
        settings = world.state._dynamic_settings
        settings.alter(None, {name: "60", of_listener: "9"})
        settings.alter(1, {name: "50"})
        other, changed = (
            {each.name: each for each in describe(world, 4, node).configs} for node in ("0", "1")
        )
        everywhere = describe(world, 4, "").configs
    chain = [(each.value, each.source) for each in changed[name].synonyms]
    assert chain == [("50", 2), ("60", 3), ("70", 4)]
    assert (changed[name].value, changed[name].config_source) == ("50", 2)
    assert (other[name].value, other[name].config_source) == ("60", 3)
    assert [(each.name, each.value, each.config_source) for each in everywhere] == [
        (of_listener, "9", 3),
        (name, "60", 3),
    ]
    assert {each.config_type for each in everywhere} == {3}
    assert (other[of_listener].value, other[of_listener].read_only) == ("9", False)


def test_only_the_settings_asked_for_are_told() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        result = describe(world, 2, "t", ["retention.ms", "no.such"])
        assert [each.name for each in result.configs] == ["retention.ms"]
        assert describe(world, 4, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "unknown", UNKNOWN_TOPIC_OR_PARTITION),
        (4, "7", INVALID_REQUEST),
        (4, "x", INVALID_REQUEST),
        (8, "0", INVALID_REQUEST),
    ],
)
def test_what_is_not_there_has_an_error(kind: int, name: str, code: int) -> None:
    with BrokerWorld() as world:
        result = describe(world, kind, name)
    assert (result.error_code, result.resource_name, result.configs) == (code, name, [])
    assert result.error_message


def test_what_a_resource_raises_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:

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
    assert [each.error_code for each in found] == [
        UNKNOWN_SERVER_ERROR,
        NONE,
    ]
    assert "a mistake" in found[0].error_message
