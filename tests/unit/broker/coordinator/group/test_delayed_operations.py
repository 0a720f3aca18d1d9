"""Deadlines of groups, in a real purgatory (B-A5.6)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod.broker.coordinator.group.delayed_operations import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedPendingMember,
    DelayedSync,
)
from fastprod.broker.threads.clock import FakeClock
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from support.broker.group_world import GroupWorld, raise_it


class Keeper:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.changed = threading.Event()

    def note(self, *told: Any) -> None:
        self.told.append(told)
        self.changed.set()

    def join_expired(self, group: Any, operation: Any) -> None:
        self.note("join", operation)

    def sync_expired(self, group: Any, operation: Any) -> None:
        self.note("sync", operation)

    def heartbeat_expired(self, group: Any, member: Any, operation: Any) -> None:
        self.note("heartbeat", operation)

    def pending_expired(self, group: Any, member_id: str, operation: Any) -> None:
        self.note("pending", operation)


@pytest.mark.parametrize("kind", ["join", "sync", "heartbeat", "pending"])
def test_its_keeper_is_told_at_the_deadline_and_at_nothing_else(kind: str) -> None:
    world = GroupWorld()
    world.stable()
    group, keeper, clock = world.group(), Keeper(), FakeClock()
    member = next(iter(group.members.values()))

    def make() -> Any:
        if kind == "join":
            return DelayedJoin(keeper, group, 100)
        if kind == "sync":
            return DelayedSync(keeper, group, 100, 1)
        if kind == "heartbeat":
            return DelayedHeartbeat(keeper, group, 100, member)
        return DelayedPendingMember(keeper, group, 100, "m")

    purgatory = DelayedOperationPurgatory("test", clock, raise_it)
    kept, withdrawn, closed = make(), make(), make()
    closed.delay_ms = 1000
    for operation in (kept, withdrawn, closed):
        assert not purgatory.complete_or_watch(operation, (group,))
    assert purgatory.check_and_complete(group) == 0
    purgatory.withdraw(withdrawn)
    clock.await_waiters(1)
    clock.advance(100)
    assert keeper.changed.wait(30)
    purgatory.close()
    assert keeper.told == [(kind, kept)]
    assert all(each.is_completed for each in (kept, withdrawn, closed))
