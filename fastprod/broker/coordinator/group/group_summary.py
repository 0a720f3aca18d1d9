"""GroupSummary: what administrators are told of a group (B-E2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastprod.broker.coordinator.group.group_metadata import GroupMetadata, GroupState


class GroupListing(NamedTuple):
    """A group in a list.

    Attributes:
        kind: Kafka's name for its type.
    """

    group_id: str
    protocol_type: str
    state: str
    kind: str


class MemberSummary(NamedTuple):
    """A member in a description."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupSummary(NamedTuple):
    """A description of a group whose members assign.

    Attributes:
        why: there is nothing to describe.
    """

    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[MemberSummary] = ()
    why: str | None = None


def summary_of(group: GroupMetadata) -> GroupSummary:
    """A group as it is now; its lock is held."""
    is_stable = group.is_in(GroupState.STABLE)
    protocol = (group.protocol_name or "") if is_stable else ""
    members = [
        MemberSummary(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.metadata(protocol) if is_stable else b"",
            each.assignment if is_stable else b"",
        )
        for each in group.members.values()
    ]
    return GroupSummary(group.state.value, group.protocol_type or "", protocol, members)
