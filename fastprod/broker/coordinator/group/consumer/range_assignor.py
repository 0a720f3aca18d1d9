"""The assignor `range`: of each topic a run of neighbours for each member.

With topics of the same size and members that read all of them, a member has the same numbers of
each topic. Static members come first, by the names of their instances, so that a restart changes
nothing.

Source: RangeAssignor of Apache Kafka 4.x; contract B-E3.
"""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.consumer_group_member import Assignment
from fastprod.broker.coordinator.group.consumer.group_spec import GroupSpec, MemberSpec

NAME = "range"


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Share the partitions of each topic among its readers, as evenly as runs can be."""
    found: dict[str, dict[bytes, frozenset[int]]] = {id: {} for id in spec.members}
    in_order = [id for id, _ in sorted(spec.members.items(), key=_place)]
    readers: dict[bytes, list[str]] = {}
    for member_id in in_order:
        for topic_id in spec.members[member_id].topic_ids:
            readers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in readers.items():
        size, larger = divmod(spec.partition_counts[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + size + (place < larger)
            if start < end:
                found[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(found)


def _place(member: tuple[str, MemberSpec]) -> tuple[bool, str]:
    member_id, spec = member
    return (True, member_id) if spec.instance_id is None else (False, spec.instance_id)
