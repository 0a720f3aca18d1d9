"""AlterClientQuotas and DescribeClientQuotas: how fast addresses may connect (B-D4.10)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.network.connection_quotas import ConnectionQuotas, ConnectionThrottledError
from fastprod.broker.server import ip_quotas
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import INVALID_REQUEST, NONE, POLICY_VIOLATION, UNSUPPORTED_VERSION
from fastprod.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from fastprod.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from support.broker.world import BrokerWorld

RATE = "connection_creation_rate"
EXACT, DEFAULT, ANY = range(3)
HERE = "127.0.0.1"


def entry(name: str | None, value: float | None, key: str = RATE, kind: str = "ip") -> EntryData:
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    return EntryData(entity=[EntityData(entity_type=kind, entity_name=name)], ops=[op])


def alter(
    world: BrokerWorld, *entries: EntryData, validate_only: bool = False, version: int = 1
) -> Any:
    message = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return world.ask("AlterClientQuotas", version, message).entries


def describe(
    world: BrokerWorld, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    return world.ask(
        "DescribeClientQuotas",
        1,
        DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=kind, match_type=match_type, match=match)
                for kind, match_type, match in components
            ],
            strict=strict,
        ),
    )


def rates(
    world: BrokerWorld, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[str | None, float]:
    answer = describe(world, *components, strict=strict)
    assert answer.error_code == NONE
    found = {}
    for each in answer.entries:
        ((kind, name),) = [(part.entity_type, part.entity_name) for part in each.entity]
        ((key, value),) = [(quota.key, quota.value) for quota in each.values]
        assert (kind, key) == ("ip", RATE)
        found[name] = value
    return found


@pytest.mark.parametrize("version", [0, 1])
def test_a_rate_is_set_told_and_taken_away(version: int) -> None:
    with BrokerWorld(brokers=2) as world:
        nodes = [ConnectionQuotas(FakeClock()) for _ in range(2)]
        for node_id, quotas in enumerate(nodes):
            quotas.add_listener("PLAINTEXT")
            world.state.limit_connections(node_id, quotas)
        (result,) = alter(world, entry(HERE, 1.0), version=version)
        assert (result.error_code, result.entity[0].entity_name) == (NONE, HERE)
        for quotas in nodes:
            for _ in range(10):
                quotas.inc("PLAINTEXT", HERE)
            with pytest.raises(ConnectionThrottledError):
                quotas.inc("PLAINTEXT", HERE)
            quotas.inc("PLAINTEXT", "10.0.0.1")
        assert rates(world) == {HERE: 1}
        alter(world, entry(HERE, None), version=version)
        for quotas in nodes:
            quotas.inc("PLAINTEXT", HERE)
        assert rates(world) == {}


def test_a_node_that_comes_up_later_has_the_rates() -> None:
    with BrokerWorld() as world:
        alter(world, entry(None, 5.0), entry("::ffff:10.0.0.1", 6.0))
        quotas = ConnectionQuotas(FakeClock())
        world.state.limit_connections(0, quotas)
        assert [quotas._ip_rates.limit(each) for each in (HERE, "10.0.0.1")] == [5, 6]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (entry("somewhere", 5.0), "'somewhere' is no IP address"),
        (entry("", 5.0), "'' is no IP address"),
        (entry(HERE, 5.0, "producer_byte_rate"), "an address has only connection_creation_rate"),
        (entry(HERE, 5.0, kind="user"), "an entity of user"),
        (entry("me", 5.0, kind="client-id"), "an entity of client-id"),
        (entry(HERE, -1.0), "is -1; it must be a whole number from 1"),
        (entry(HERE, 0.5), "is 0.5; it must be a whole number from 1"),
        (entry(HERE, 2.0**31), "to 2,147,483,647"),
        (entry(HERE, float("nan")), "is nan; it must"),
        (entry(HERE, float("inf")), "is inf; it must"),
        (EntryData(entity=[], ops=[]), "an entity of nothing"),
        (
            EntryData(entity=entry(HERE, 1.0).entity, ops=entry(HERE, 1.0).ops * 2),
            "more than once",
        ),
        (
            EntryData(entity=[*entry(HERE, 1.0).entity, *entry("me", 1.0, kind="user").entity]),
            "an entity of ip and user",
        ),
    ],
)
def test_a_wrong_entry_is_refused_and_others_are_changed(wrong: EntryData, said: str) -> None:
    with BrokerWorld() as world:
        refused, done = alter(world, wrong, entry("10.0.0.1", 5.0))
        assert (refused.error_code, done.error_code) == (INVALID_REQUEST, NONE)
        assert said in refused.error_message
        assert rates(world) == {"10.0.0.1": 5}


def test_an_entity_that_stands_twice_is_refused() -> None:
    with BrokerWorld() as world:
        results = alter(world, entry(HERE, 1.0), entry(HERE, 2.0))
        assert [each.error_code for each in results] == [INVALID_REQUEST] * 2
        assert rates(world) == {}


def test_only_looking_changes_nothing() -> None:
    with BrokerWorld() as world:
        results = alter(world, entry(HERE, 1.0), entry(HERE, -1.0, kind="ip"), validate_only=True)
        assert [each.error_code for each in results] == [INVALID_REQUEST] * 2
        results = alter(world, entry(HERE, 1.0), entry(None, -1.0), validate_only=True)
        assert [each.error_code for each in results] == [NONE, INVALID_REQUEST]
        assert rates(world) == {}


def test_addresses_with_a_rate_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ip_quotas, "MOST_ADDRESSES", 2)
    with BrokerWorld() as world:
        results = alter(world, *(entry(f"10.0.0.{number}", 1.0) for number in range(3)))
        assert [each.error_code for each in results] == [NONE, NONE, INVALID_REQUEST]
        assert alter(world, entry("10.0.0.1", 2.0))[0].error_code == NONE
        alter(world, entry("10.0.0.0", None))
        assert alter(world, entry("10.0.0.2", 3.0))[0].error_code == NONE
        assert rates(world) == {"10.0.0.1": 2, "10.0.0.2": 3}


def test_a_request_for_very_many_entities_is_refused() -> None:
    with BrokerWorld() as world:
        results = alter(world, entry(HERE, 1.0), *[entry("x", 1.0)] * 10_000)
        assert {each.error_code for each in results} == {POLICY_VIOLATION}
        assert rates(world) == {}


def test_those_are_told_that_the_filter_means() -> None:
    with BrokerWorld() as world:
        alter(world, entry(HERE, 1.0), entry("::1", 2.0), entry(None, 3.0))
        everything = {HERE: 1, "::1": 2, None: 3}
        assert rates(world) == everything
        assert rates(world, ("ip", ANY, None)) == everything
        assert rates(world, ("ip", ANY, None), strict=True) == everything
        assert rates(world, ("ip", EXACT, HERE), strict=True) == {HERE: 1}
        assert rates(world, ("ip", EXACT, "0:0:0:0:0:0:0:1")) == {"::1": 2}
        assert rates(world, ("ip", EXACT, "elsewhere")) == {}
        assert rates(world, ("ip", DEFAULT, None)) == {None: 3}
        assert rates(world, strict=True) == {}
        assert rates(world, ("user", ANY, None), ("client-id", DEFAULT, None)) == {}


@pytest.mark.parametrize(
    ("components", "code", "said"),
    [
        ([("ip", EXACT, None)], INVALID_REQUEST, "a name goes with match type 0"),
        ([("ip", ANY, HERE)], INVALID_REQUEST, "a name goes with match type 0"),
        ([("ip", DEFAULT, HERE)], INVALID_REQUEST, "a name goes with match type 0"),
        ([("ip", 7, None)], INVALID_REQUEST, "match type 7"),
        ([("ip", ANY, None), ("ip", ANY, None)], INVALID_REQUEST, "more than once"),
        ([("ip", ANY, None), ("user", ANY, None)], INVALID_REQUEST, "do not go together"),
        ([("planet", ANY, None)], UNSUPPORTED_VERSION, "entity type 'planet'"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(
    components: list[tuple[str, int, str | None]], code: int, said: str
) -> None:
    with BrokerWorld() as world:
        answer = describe(world, *components)
    assert (answer.error_code, answer.entries) == (code, None)
    assert said in answer.error_message
