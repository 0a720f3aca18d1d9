"""What a group waits for: its members' joins, their syncs, and signs of life of each.

They hold no thread (B-A5.6), and are completed by whoever changes the group. What is parked here is
the deadline. The coordinator withdraws those that it needs no longer.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from fastprod.broker.coordinator.group.member_metadata import MemberMetadata
from fastprod.broker.threads.purgatory import DelayedOperation


class DeadlineKeeper(Protocol):
    """What delayed operations call when their time is over, without a lock. Any thread."""

    def join_expired(self, group: GroupMetadata, operation: DelayedJoin) -> None:
        """Members have had long enough to join."""

    def sync_expired(self, group: GroupMetadata, operation: DelayedSync) -> None:
        """Members have had long enough to ask for their assignments."""

    def heartbeat_expired(
        self, group: GroupMetadata, member: MemberMetadata, operation: DelayedHeartbeat
    ) -> None:
        """It is time to see whether anything was heard of a member."""

    def pending_expired(
        self, group: GroupMetadata, member_id: str, operation: DelayedPendingMember
    ) -> None:
        """Somebody was given an id, and has not joined."""


class _GroupOperation(DelayedOperation):
    """A deadline of a group; nothing happens when it is completed before."""

    __slots__ = ("group", "keeper")

    def __init__(self, keeper: DeadlineKeeper, group: GroupMetadata, delay_ms: float) -> None:
        super().__init__(delay_ms)
        self.keeper = keeper
        self.group = group

    def try_complete(self, key: Hashable | None = None) -> bool:
        """Never: the coordinator knows when, and has the group's lock then."""
        return False

    def on_complete(self) -> None:
        """The purgatory closes; the coordinator answers those who wait."""

    def on_withdrawn(self) -> None:
        """Keep nothing alive: the timer knows it until a long session would have ended."""
        del self.group


class DelayedJoin(_GroupOperation):
    """A rebalance that is being prepared.

    Args:
        keeper: told at the deadline.
        group: it is that group's `delayed_join`.
        delay_ms: how long it may take.
        remaining_ms: None: it ends when all have joined. A number: it is the first of a group, and
            waits for its whole time, to be followed by at most so much if more members come
            (KIP-134).
    """

    __slots__ = ("remaining_ms",)

    def __init__(
        self,
        keeper: DeadlineKeeper,
        group: GroupMetadata,
        delay_ms: float,
        remaining_ms: int | None = None,
    ) -> None:
        super().__init__(keeper, group, delay_ms)
        self.remaining_ms = remaining_ms

    def on_expiry(self) -> None:
        """Go on with those who are there."""
        self.keeper.join_expired(self.group, self)


class DelayedSync(_GroupOperation):
    """A generation whose members have to ask for their assignments.

    Args:
        keeper: told at the deadline.
        group: it is that group's `delayed_sync`.
        delay_ms: how long that may take.
        generation_id: of the group.
    """

    __slots__ = ("generation_id",)

    def __init__(
        self, keeper: DeadlineKeeper, group: GroupMetadata, delay_ms: float, generation_id: int
    ) -> None:
        super().__init__(keeper, group, delay_ms)
        self.generation_id = generation_id

    def on_expiry(self) -> None:
        """Go on without those who have not asked."""
        self.keeper.sync_expired(self.group, self)


class DelayedHeartbeat(_GroupOperation):
    """Looks whether a member lives; one for each, which is parked again while it does.

    A heartbeat only moves the member's deadline: thousands of them cost no timer.
    """

    __slots__ = ("member",)

    def __init__(
        self, keeper: DeadlineKeeper, group: GroupMetadata, delay_ms: float, member: MemberMetadata
    ) -> None:
        super().__init__(keeper, group, delay_ms)
        self.member = member

    def on_withdrawn(self) -> None:
        """Forget the member, too, and all that it has said of itself."""
        super().on_withdrawn()
        del self.member

    def on_expiry(self) -> None:
        """Look."""
        self.keeper.heartbeat_expired(self.group, self.member, self)


class DelayedPendingMember(_GroupOperation):
    """Forgets an id that was given away if nobody joins with it (KIP-394)."""

    __slots__ = ("member_id",)

    def __init__(
        self, keeper: DeadlineKeeper, group: GroupMetadata, delay_ms: float, member_id: str
    ) -> None:
        super().__init__(keeper, group, delay_ms)
        self.member_id = member_id

    def on_expiry(self) -> None:
        """Forget it."""
        self.keeper.pending_expired(self.group, self.member_id, self)
