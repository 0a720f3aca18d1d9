"""Deadlines of groups, in a real purgatory (B-A5.6)."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from fastprod.broker.coordinator.group.delayed_operations import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedPendingMember,
    DelayedSync,
)
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from fastprod.broker.coordinator.group.member_metadata import MemberMetadata
from fastprod.broker.threads.clock import FakeClock
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from support.groups.group_world import GroupWorld, raise_it

KINDS = ("join", "sync", "heartbeat", "pending")


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


def make(kind: str, keeper: Keeper, group: GroupMetadata) -> Any:
    if kind == "join":
        return DelayedJoin(keeper, group, 100)
    if kind == "sync":
        return DelayedSync(keeper, group, 100, 1)
    if kind == "heartbeat":
        return DelayedHeartbeat(keeper, group, 100, next(iter(group.members.values())))
    return DelayedPendingMember(keeper, group, 100, "m")


@pytest.fixture
def group() -> GroupMetadata:
    """One with a member."""
    world = GroupWorld()
    world.stable()
    return world.group()


@pytest.mark.parametrize("kind", KINDS)
def test_its_keeper_is_told_at_the_deadline_and_at_nothing_else(
    kind: str, group: GroupMetadata
) -> None:
    keeper, clock = Keeper(), FakeClock()
    purgatory = DelayedOperationPurgatory("test", clock, raise_it)
    kept, withdrawn, closed = (make(kind, keeper, group) for _ in range(3))
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


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_withdrawn_keeps_no_group_and_no_member_alive(
    kind: str, group: GroupMetadata
) -> None:
    """B-A5.6: the timer knows it until its deadline, and members may say megabytes."""
    purgatory = DelayedOperationPurgatory("test", FakeClock(), raise_it)
    operation = make(kind, Keeper(), group)
    purgatory.complete_or_watch(operation, (group,))
    purgatory.withdraw(operation)
    kept = [*gc.get_referents(operation), *operation.keys]
    assert not any(isinstance(each, GroupMetadata | MemberMetadata) for each in kept)
    purgatory.close()
