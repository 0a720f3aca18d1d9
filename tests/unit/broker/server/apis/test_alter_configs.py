"""IncrementalAlterConfigs, AlterConfigs: limits and topics change while nodes serve (B-D4.9)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.network.connection_quotas import ConnectionQuotas, TooManyConnectionsError
from fastprod.broker.network.rate_quota import UNLIMITED
from fastprod.broker.server.apis import alter_configs
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    MESSAGE_TOO_LARGE,
    NONE,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from fastprod.protocol.messages.alter_configs import AlterConfigsRequest
from fastprod.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from fastprod.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.broker.replica_world import pause, replicated
from support.broker.world import (
    BrokerWorld,
    batch_of,
    fetch_request,
    produce_request,
    wait_for,
)

TOPIC, BROKER = 2, 4
WAIT_S = 30.0
# Nobody waits so long for an answer here.
PATIENT_MS = 600_000
COUNT, RATE = "max.connections", "max.connection.creation.rate"
PER_IP, OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"
SET, DELETE, APPEND, SUBTRACT = range(4)


def change(name: str, value: str | None, operation: int = SET) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def resource(name: str, *configs: AlterableConfig, kind: int = BROKER) -> AlterConfigsResource:
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=list(configs))


def alter(
    world: BrokerWorld,
    *resources: AlterConfigsResource,
    validate_only: bool = False,
    version: int = 1,
    node_id: int = 0,
) -> Any:
    message = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return world.ask("IncrementalAlterConfigs", version, message, node_id).responses


def quotas_of(world: BrokerWorld, node_id: int, **limits: Any) -> ConnectionQuotas:
    quotas = ConnectionQuotas(FakeClock(), **limits)
    quotas.add_listener("PLAINTEXT")
    world.state.limit_connections(node_id, quotas)
    return quotas


def changed(world: BrokerWorld, node_id: int | None) -> dict[str, str]:
    return dict(world.state._dynamic_settings.changed(node_id))


@pytest.mark.parametrize("version", [0, 1])
def test_a_limit_is_set_and_deleted(version: int) -> None:
    with BrokerWorld() as world:
        quotas = quotas_of(world, 0)
        (result,) = alter(world, resource("0", change(PER_IP, "1")), version=version)
        assert (result.error_code, result.resource_type, result.resource_name) == (NONE, 4, "0")
        quotas.inc("PLAINTEXT", "1.1.1.1")
        with pytest.raises(TooManyConnectionsError):
            quotas.inc("PLAINTEXT", "1.1.1.1")
        (result,) = alter(world, resource("0", change(PER_IP, None, DELETE)), version=version)
        assert result.error_code == NONE
        quotas.inc("PLAINTEXT", "1.1.1.1")
        assert changed(world, 0) == {}


def test_a_nodes_limit_is_its_own_and_goes_before_that_of_all() -> None:
    with BrokerWorld(brokers=2) as world:
        ours, others = quotas_of(world, 0), quotas_of(world, 1)
        alter(world, resource("", change(COUNT, "5"), change(RATE, "7")))
        alter(world, resource("1", change(COUNT, "3")), node_id=1)
        assert (ours._max_connections, others._max_connections) == (5, 3)
        assert ours._broker_rate.limit == others._broker_rate.limit == 7
        alter(world, resource("1", change(COUNT, None, DELETE)), node_id=1)
        assert others._max_connections == 5
        assert quotas_of(world, 1)._max_connections == 5


def test_a_listeners_limits_are_changed_by_its_prefix() -> None:
    prefix = "listener.name.plaintext."
    with BrokerWorld() as world:
        quotas = quotas_of(world, 0)
        alter(world, resource("", change(prefix + COUNT, "4"), change(prefix + RATE, "6")))
        listener = quotas._listeners["PLAINTEXT"]
        assert (listener.max_connections, listener.limit) == (4, 6)
        alter(world, resource("", change(prefix + COUNT, None, DELETE)))
        assert (listener.max_connections, listener.limit) == (UNLIMITED, 6)


@pytest.mark.parametrize(
    ("kind", "named", "name"),
    [
        (BROKER, "0", "leader.replication.throttled.rate"),
        (2, "t", "follower.replication.throttled.replicas"),
    ],
)
def test_limits_of_replication_can_be_removed_and_not_set(kind: int, named: str, name: str) -> None:
    """There are none; kafka-reassign-partitions.sh removes them in any case."""
    with BrokerWorld(topics={"t": 1}) as world:
        removed = resource(named, change(name, None, DELETE), kind=kind)
        assert alter(world, removed)[0].error_code == NONE
        (refused,) = alter(world, resource(named, change(name, "5"), kind=kind))
        assert refused.error_code == INVALID_CONFIG
        assert refused.error_message.endswith("leave --throttle out")


def test_the_overrides_of_the_start_come_back() -> None:
    with BrokerWorld(max_connections_per_ip_overrides="localhost:2") as world:
        quotas = quotas_of(world, 0)
        alter(world, resource("0", change(OVERRIDES, "[::1]:8, 10.0.0.1:9")))
        assert quotas._max_per_ip_overrides == {"::1": 8, "10.0.0.1": 9}
        alter(world, resource("0", change(PER_IP, "0")))
        assert quotas._max_per_ip == 0
        alter(world, resource("0", change(OVERRIDES, None, DELETE)))
        assert quotas._max_per_ip_overrides["127.0.0.1"] == 2


@pytest.mark.parametrize(
    ("config", "code", "said"),
    [
        (change("num.partitions", "2"), INVALID_REQUEST, "num.partitions cannot be changed"),
        (change("no.such", "2"), INVALID_REQUEST, "these can: max.connections, "),
        (change("no.such", "2", APPEND), INVALID_REQUEST, "no.such cannot be changed"),
        (change("listener.name.ssl.max.connections.per.ip", "1"), INVALID_REQUEST, "cannot be"),
        (change("listener.name.other.max.connections", "1"), INVALID_REQUEST, "cannot be changed"),
        (change("listener.name.SSL.max.connections", "1"), INVALID_REQUEST, "cannot be changed"),
        (change("listener.name.ssl.max.connections", "0"), INVALID_REQUEST, "from 1 to 2,147"),
        (change(COUNT, "many"), INVALID_REQUEST, "whole number"),
        (change(COUNT, "9_00"), INVALID_REQUEST, "whole number"),
        (change(COUNT, "-1"), INVALID_REQUEST, "from 0 to 2,147,483,647"),
        (change(COUNT, "2147483648"), INVALID_REQUEST, "from 0 to 2,147,483,647"),
        (change(RATE, "0"), INVALID_REQUEST, "from 1 to"),
        (change(PER_IP, "0"), INVALID_REQUEST, "nobody could connect"),
        (change(OVERRIDES, "127.0.0.1"), INVALID_REQUEST, "is not host:count"),
        (change(OVERRIDES, "127.0.0.1:12345678901"), INVALID_REQUEST, "is not host:count"),
        (change(OVERRIDES, "127.0.0.1:2147483648"), INVALID_REQUEST, "2,147,483,647 at most"),
        (change(OVERRIDES, "[fe80::1%none]:5"), INVALID_REQUEST, "'fe80::1%none' is no IP address"),
        (change(OVERRIDES, "localhost:1"), INVALID_REQUEST, "'localhost' is no IP address"),
        (change(COUNT, None), INVALID_REQUEST, "max.connections is null"),
        (change(COUNT, "1", APPEND), INVALID_CONFIG, "append: max.connections is no list"),
        (change(OVERRIDES, "1.1.1.1:1", SUBTRACT), INVALID_CONFIG, "subtract: "),
        (change(COUNT, "1", 9), INVALID_REQUEST, "operation 9; there are 0 to 3"),
    ],
)
def test_what_cannot_be_changes_nothing_of_its_resource(
    config: AlterableConfig, code: int, said: str
) -> None:
    with BrokerWorld() as world:
        good = change("listener.name.ssl.max.connection.creation.rate", "5")
        (result,) = alter(world, resource("0", good, config))
        assert result.error_code == code
        assert said in result.error_message
        assert changed(world, 0) == {}


def test_a_wrong_value_for_all_is_refused_even_where_each_node_has_its_own() -> None:
    with BrokerWorld() as world:
        alter(world, resource("0", change(COUNT, "5")))
        (result,) = alter(world, resource("", change(COUNT, "few")))
        assert (result.error_code, changed(world, None)) == (INVALID_REQUEST, {})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (resource("1", change(COUNT, "1")), "broker '1'; this is broker 0"),
        (resource("x", change(COUNT, "1")), "broker 'x'; this is broker 0"),
        (resource("0", change(COUNT, "1"), kind=8), "resource type 8"),
        (resource("0", change(COUNT, "1"), change(COUNT, "2")), "more than once"),
    ],
)
def test_a_wrong_resource_is_refused_and_others_are_changed(
    asked: AlterConfigsResource, said: str
) -> None:
    with BrokerWorld(brokers=2, topics={"t": 1}) as world:
        refused, done = alter(world, asked, resource("", change(COUNT, "7")))
        assert (refused.error_code, done.error_code) == (INVALID_REQUEST, NONE)
        assert said in refused.error_message
        assert [changed(world, node_id) for node_id in (0, 1, None)] == [{}, {}, {COUNT: "7"}]


def test_a_resource_that_stands_twice_is_refused() -> None:
    with BrokerWorld() as world:
        results = alter(world, *(resource("0", change(COUNT, each)) for each in "12"))
        assert [each.error_code for each in results] == [INVALID_REQUEST] * 2
        assert changed(world, 0) == {}


def test_a_request_for_very_many_resources_is_refused() -> None:
    with BrokerWorld() as world:
        many = [resource("x")] * 10_000
        results = alter(world, resource("0", change(COUNT, "1")), *many)
        assert {each.error_code for each in results} == {POLICY_VIOLATION}
        assert changed(world, 0) == {}


def test_only_looking_changes_nothing() -> None:
    with BrokerWorld() as world:
        quotas = quotas_of(world, 0)
        results = alter(
            world,
            resource("0", change(COUNT, "1")),
            resource("", change(COUNT, "x")),
            validate_only=True,
        )
        assert [each.error_code for each in results] == [NONE, INVALID_REQUEST]
        assert (quotas._max_connections, changed(world, 0)) == (UNLIMITED, {})


def overrides(world: BrokerWorld) -> dict[str, str]:
    topic = world.state.topics.get("t")
    assert topic is not None
    return topic.config.overrides


def replace(world: BrokerWorld, *rows: tuple[int, str, dict[str, str | None]], **words: Any) -> Any:
    """AlterConfigs: (type, name, settings) of each resource."""
    request = AlterConfigsRequest(
        resources=[
            ReplacedResource(
                resource_type=kind,
                resource_name=name,
                configs=[ReplacedConfig(name=key, value=value) for key, value in given.items()],
            )
            for kind, name, given in rows
        ],
        validate_only=words.pop("validate_only", False),
    )
    return [each.error_code for each in world.ask("AlterConfigs", 2, request).responses]


def test_settings_of_a_topic_hold_at_once() -> None:
    with BrokerWorld(brokers=3) as world:
        partition = replicated(world)
        asked = resource(
            "t",
            change("max.message.bytes", "100"),
            change("min.insync.replicas", "2"),
            kind=2,
        )
        assert [each.error_code for each in alter(world, asked)] == [NONE]
        assert overrides(world) == {"max.message.bytes": "100", "min.insync.replicas": "2"}
        assert {each.config.max_message_bytes for each in partition.logs()} == {100}
        assert partition.min_isr == 2
        assert world.produce(batch_of(b"x" * 200)).error_code == MESSAGE_TOO_LARGE
        alter(world, resource("t", change("max.message.bytes", None, DELETE), kind=2))
        assert overrides(world) == {"min.insync.replicas": "2"}
        assert world.produce(batch_of(b"x" * 200)).error_code == NONE


@pytest.mark.parametrize("is_incremental", [True, False])
def test_who_waits_for_more_replicas_than_are_needed_now_is_answered(is_incremental: bool) -> None:
    """B-D4.9, KIP-966: nothing else would wake them, as no follower fetches."""
    with BrokerWorld(brokers=3, replica_lag_time_max_ms=100) as world:
        partition = replicated(world, **{"min.insync.replicas": "2"})
        pause(world, 1, 2)
        message = produce_request([("t", 0, batch_of(b"x"))])
        message.timeout_ms = PATIENT_MS
        produced = world.post("Produce", 9, message)
        fetched = world.post("Fetch", 11, fetch_request([("t", 0, 0)], max_wait_ms=PATIENT_MS))
        wait_for(lambda: partition.isr == [0])
        assert (produced.answer, fetched.answer) == (None, None)
        if is_incremental:
            alter(world, resource("t", change("min.insync.replicas", "1"), kind=TOPIC))
        else:
            one = ReplacedConfig(name="min.insync.replicas", value="1")
            named = ReplacedResource(resource_type=TOPIC, resource_name="t", configs=[one])
            world.ask("AlterConfigs", 1, AlterConfigsRequest(resources=[named]))
        (answered,) = produced.wait().responses[0].partition_responses
        assert (answered.error_code, answered.base_offset) == (NONE, 0)
        (found,) = fetched.wait().responses[0].partitions
        assert found.high_watermark == 1


def test_two_who_change_a_topic_at_once_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes while the first one looks at what the topic has."""
    look = alter_configs._new_overrides
    with BrokerWorld(brokers=2, topics={"t": 1}) as world:
        second = threading.Thread(
            target=alter,
            args=(world, resource("t", change("segment.ms", "7"), kind=2)),
            kwargs={"node_id": 1},
        )

        def look_slowly(*args: Any) -> Any:
            found = look(*args)
            if threading.current_thread() is not second:
                second.start()
                second.join(0.2)  # it is kept waiting, or it is done
            return found

        monkeypatch.setattr(alter_configs, "_new_overrides", look_slowly)
        alter(world, resource("t", change("retention.ms", "1000"), kind=2))
        second.join(WAIT_S)
        assert overrides(world) == {"retention.ms": "1000", "segment.ms": "7"}


def test_a_list_gets_longer_and_shorter() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        for operation, value in ((APPEND, "delete,compact"), (SUBTRACT, "delete")):
            asked = resource("t", change("cleanup.policy", "compact", operation), kind=2)
            assert [each.error_code for each in alter(world, asked)] == [NONE]
            assert overrides(world) == {"cleanup.policy": value}


def test_a_topics_own_settings_are_replaced() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        assert replace(world, (2, "t", {"retention.ms": "1000", "segment.ms": "7"})) == [NONE]
        assert replace(world, (2, "t", {"retention.ms": "5"}), validate_only=True) == [NONE]
        assert overrides(world) == {"retention.ms": "1000", "segment.ms": "7"}
        assert replace(world, (2, "t", {"retention.ms": "2000"})) == [NONE]
        assert overrides(world) == {"retention.ms": "2000"}
        assert replace(world, (4, "0", {COUNT: "5"}), (2, "u", {})) == [
            NONE,
            UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert changed(world, 0) == {COUNT: "5"}
        assert replace(world, (4, "0", {RATE: "6"})) == [NONE]
        assert changed(world, 0) == {RATE: "6"}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (change("no.such", "1"), INVALID_CONFIG),
        (change("no.such", None, DELETE), INVALID_CONFIG),
        (change("retention.ms", "soon"), INVALID_CONFIG),
        (change("retention.ms", "1", APPEND), INVALID_CONFIG),
        (change("retention.ms", None), INVALID_REQUEST),
        (change("retention.ms", "1", 9), INVALID_REQUEST),
    ],
)
def test_what_a_topic_cannot_have_changes_nothing(config: AlterableConfig, code: int) -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        asked = resource("t", change("segment.ms", "7"), config, kind=2)
        assert [each.error_code for each in alter(world, asked)] == [code]
        assert overrides(world) == {}
        assert replace(world, (2, "t", {"no.such": "1"}), (2, "t", {})) == [INVALID_REQUEST] * 2
        assert replace(world, (2, "t", {"retention.ms": None})) == [INVALID_REQUEST]


def test_settings_of_a_topic_are_found_again(tmp_path: Path) -> None:
    with BrokerWorld(topics={"t": 1}, data_dir=tmp_path) as world:
        assert replace(world, (2, "t", {"retention.ms": "1000"})) == [NONE]
    with BrokerWorld(data_dir=tmp_path) as world:
        assert overrides(world) == {"retention.ms": "1000"}
