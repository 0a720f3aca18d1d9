"""MemberMetadata: one member of a group, as its coordinator knows it; and what members ask."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from fastprod.broker.threads.purgatory import DelayedOperation

Protocol = tuple[str, bytes]
"""Name of a protocol, and what the member says for it."""


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResult(NamedTuple):
    """The answer to JoinGroup.

    Attributes:
        error: Kafka's code.
        member_id: of the client; "": it has none.
        generation_id: -1 on an error.
        protocol_type: likewise None.
        protocol_name: which the group follows, likewise None.
        leader_id: who assigns.
        members: for the leader alone.
        skips_assignment: the leader leaves all as it is (KIP-814).
    """

    error: int
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: Sequence[JoinedMember] = ()
    skips_assignment: bool = False


class SyncGroupResult(NamedTuple):
    """The answer to SyncGroup."""

    error: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinCallback = Callable[[JoinGroupResult], None]
SyncCallback = Callable[[SyncGroupResult], None]


class MemberMetadata:
    """One member. Guarded by its group's lock.

    Attributes:
        protocols: those that it can follow, the one that it likes best first.
        assignment: what the leader gave it.
        awaiting_join: answers its JoinGroup when the generation begins; None: it has not joined.
        awaiting_sync: answers its SyncGroup when the leader has assigned; None: it has not asked.
        is_new: its first generation has not begun; it does not know its id, and sends nothing.
        heartbeat_deadline_ns: until then something must be heard of it; by the broker's clock.
        heartbeat: looks after that; None: nothing needs to be heard now.
        heartbeat_due_ns: when that looks.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "heartbeat",
        "heartbeat_deadline_ns",
        "heartbeat_due_ns",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Sequence[Protocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = list(protocols)
        self.assignment = assignment
        self.awaiting_join: JoinCallback | None = None
        self.awaiting_sync: SyncCallback | None = None
        self.is_new = False
        self.heartbeat_deadline_ns = 0
        self.heartbeat: DelayedOperation | None = None
        self.heartbeat_due_ns = 0

    def __repr__(self) -> str:
        return f"MemberMetadata({self.member_id!r}, instance {self.group_instance_id!r})"

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place over a restart (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_awaiting(self) -> bool:
        """Whether it waits for the others: it cannot send anything meanwhile."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def protocol_names(self) -> list[str]:
        """Each protocol that it can follow, once, the best first."""
        return list(dict(self.protocols))

    def metadata(self, protocol: str) -> bytes:
        """What it says for a protocol; empty: it cannot follow that."""
        return dict(self.protocols).get(protocol, b"")

    def matches(self, protocols: Sequence[Protocol]) -> bool:
        """Whether it said just this when it joined."""
        return self.protocols == list(protocols)

    def vote(self, candidates: Collection[str]) -> str:
        """The one of `candidates` that it likes best; it can follow all of them."""
        return next(name for name, _ in self.protocols if name in candidates)

    def with_id(self, member_id: str) -> MemberMetadata:
        """The same member after a restart: with another id, and nothing that waits."""
        return MemberMetadata(
            member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocol_type,
            self.protocols,
            self.assignment,
        )


class Joining(NamedTuple):
    """Who wants to join.

    Attributes:
        group_id: which group.
        member_id: "": a new member.
        group_instance_id: of a static member (KIP-345).
        client_id: as the client calls itself.
        client_host: where it is.
        session_timeout_ms: how long it may say nothing.
        rebalance_timeout_ms: how long it may take to join again.
        protocol_type: what kind of group it takes this to be.
        protocols: those that it can follow, the best first.
        requires_known_id: a new member has to come back with the id that it is given (KIP-394).
        supports_skipping: a leader can be told to leave the assignment as it is (KIP-814).
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[Protocol]
    requires_known_id: bool = False
    supports_skipping: bool = False

    def member(self, member_id: str) -> MemberMetadata:
        """A new member with that id."""
        return MemberMetadata(
            member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocol_type,
            self.protocols,
        )


class Syncing(NamedTuple):
    """Who asks for its assignment, and, if it leads, what it assigns to whom."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class Leaving(NamedTuple):
    """Who leaves: by its id, by its instance's, or by both."""

    member_id: str
    group_instance_id: str | None = None
