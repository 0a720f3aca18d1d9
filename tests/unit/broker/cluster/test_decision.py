"""Decision: who leads, who is in sync and which nodes come is on disk before a node is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fastprod.broker.cluster.topics import SavedTopic
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from support.broker.replica_world import kill, replicated
from support.broker.world import BrokerWorld

CHANGES: dict[str, Callable[[BrokerWorld], object]] = {
    "leader killed": lambda world: kill(world, 0),
    "follower killed": lambda world: kill(world, 2),
    "leader down": lambda world: world.state.cluster.node_down(0, True),
    "follower down": lambda world: world.state.cluster.node_down(2, True),
    "leader not moved": lambda world: world.state.cluster.node_down(0, False),
    "leader moved": lambda world: world.state.cluster.move_leader(_partition(world), 1),
    "reassigned": lambda world: world.state.cluster.reassign(_partition(world), [2, 1]),
}


def _partition(world: BrokerWorld) -> ReplicatedPartition:
    found = world.state.topics.partition("t", 0)
    assert isinstance(found, ReplicatedPartition)
    return found


def _told(partition: ReplicatedPartition) -> list[object]:
    """What the nodes know, and what clients can be told."""
    states: list[object] = [each.state for each in partition._by_node.values()]
    return [*states, partition.leader, partition.leader_epoch, partition.isr]


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_decided_is_written_down_before_a_node_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-B2: a restart finds no leader, and nobody in sync, that nodes believed in no more."""
    with BrokerWorld(brokers=3) as world:
        found = replicated(world)
        before = _told(found)
        seen: list[list[object]] = []
        written: list[tuple[int, list[int] | None]] = []

        def write(changed: Sequence[SavedTopic], deleted: Sequence[bytes]) -> None:
            seen.append(_told(found))
            (saved,) = changed[0].partitions
            written.append((saved.leader_epoch, saved.isr))

        monkeypatch.setattr(world.state.topics, "_on_change", write)
        CHANGES[name](world)
        assert seen == [before]
        assert written == [(found.leader_epoch, found.isr)]
        assert _told(found) != before
