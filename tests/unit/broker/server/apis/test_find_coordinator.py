"""FindCoordinator (B-E1)."""

from __future__ import annotations

import pytest

from fastprod.error_codes import INVALID_REQUEST, NONE
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from support.broker.world import BrokerWorld


@pytest.mark.parametrize("version", range(5))
def test_every_version_finds_a_node(version: int) -> None:
    """B-E1."""
    asked = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])
    with BrokerWorld() as world:
        answer = world.ask("FindCoordinator", version, asked)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 0, "127.0.0.1", 9000)


def test_every_node_tells_the_same() -> None:
    """B-E1."""
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[f"key {n}" for n in range(20)])
    with BrokerWorld(brokers=3) as world:
        answers = [world.ask("FindCoordinator", 4, asked, node) for node in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [each.key for each in answers[0].coordinators] == asked.coordinator_keys
    assert {each.node_id for each in answers[0].coordinators} == {0, 1, 2}


@pytest.mark.parametrize(
    ("key", "key_type", "code"),
    [
        # The simple consumers of old clients have an empty group.
        ("", 0, NONE),
        ("", 1, INVALID_REQUEST),
        ("g", 2, INVALID_REQUEST),
    ],
)
def test_an_empty_key_is_a_group_at_most(key: str, key_type: int, code: int) -> None:
    """B-E1."""
    with BrokerWorld() as world:
        asked = FindCoordinatorRequest(key=key, key_type=key_type)
        assert world.ask("FindCoordinator", 3, asked).error_code == code
