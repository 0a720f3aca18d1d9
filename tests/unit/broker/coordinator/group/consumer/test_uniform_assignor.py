"""The assignor `uniform`: balanced, and as little moves as can be (B-E3)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.broker.coordinator.group.consumer.consumer_group_member import Assignment
from fastprod.broker.coordinator.group.consumer.group_spec import GroupSpec, MemberSpec
from fastprod.broker.coordinator.group.consumer.uniform_assignor import assign

TOPICS = [bytes([number]) * 16 for number in range(4)]
T, U = TOPICS[:2]


def sizes(shares: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, share.values())) for name, share in shares.items()}


def owners(shares: dict[str, Assignment]) -> dict[tuple[bytes, int], str]:
    """Who has each partition; nobody has one that another one has."""
    found = {}
    for name, share in shares.items():
        for topic_id, partitions in share.items():
            for each in partitions:
                assert (topic_id, each) not in found
                found[topic_id, each] = name
    return found


def again(spec: GroupSpec, shares: dict[str, Assignment]) -> dict[str, MemberSpec]:
    """The members with what they were given."""
    return {
        name: member._replace(assignment=shares.get(name, {}))
        for name, member in spec.members.items()
    }


def test_a_new_member_is_given_what_others_have_too_many_of() -> None:
    """B-E3"""
    topics = frozenset({T})
    alone = GroupSpec({"a": MemberSpec(topics)}, {T: 5})
    shares = assign(alone)
    assert shares == {"a": {T: {0, 1, 2, 3, 4}}}
    two = GroupSpec(again(alone, shares) | {"b": MemberSpec(topics)}, {T: 5})
    moved = assign(two)
    assert sorted(sizes(moved).values()) == [2, 3]
    assert moved["a"][T] <= shares["a"][T]
    assert len(moved["a"][T]) == 3


def test_who_goes_leaves_the_others_what_they_have() -> None:
    """B-E3"""
    topics = frozenset({T, U})
    spec = GroupSpec({name: MemberSpec(topics) for name in "abc"}, {T: 4, U: 5})
    shares = assign(spec)
    assert sorted(sizes(shares).values()) == [3, 3, 3]
    rest = GroupSpec({k: v for k, v in again(spec, shares).items() if k != "b"}, {T: 4, U: 5})
    after = assign(rest)
    for name in "ac":
        assert all(shares[name][id] <= after[name][id] for id in shares[name])


specs = st.builds(
    lambda counts, wanted: GroupSpec(
        {
            f"m{number}": MemberSpec(frozenset(TOPICS[each] for each in topics))
            for number, topics in enumerate(wanted)
        },
        {
            TOPICS[each]: counts[each]
            for each in range(len(TOPICS))
            if any(each in topics for topics in wanted)
        },
    ),
    st.lists(st.integers(0, 9), min_size=4, max_size=4),
    st.lists(st.sets(st.integers(0, 3)), max_size=6),
)


@settings(max_examples=150)
@given(specs)
def test_all_is_shared_evenly_and_a_second_look_changes_nothing(spec: GroupSpec) -> None:
    """B-E3: whoever reads what."""
    shares = assign(spec)
    assert shares.keys() == spec.members.keys()
    found = owners(shares)
    assert len(found) == sum(spec.partition_counts.values())
    for (topic_id, index), name in found.items():
        assert topic_id in spec.members[name].topic_ids
        assert index < spec.partition_counts[topic_id]
    count = sizes(shares)
    if spec.is_homogeneous and spec.members:
        assert max(count.values()) - min(count.values()) <= 1
    # Nobody who has one of a topic has two more than somebody who could have it.
    for (topic_id, _), name in found.items():
        for other, member in spec.members.items():
            if topic_id in member.topic_ids:
                assert count[name] - count[other] <= 1
    assert assign(spec._replace(members=again(spec, shares))) == shares


@settings(max_examples=100)
@given(specs)
def test_in_a_group_of_equals_no_more_moves_than_has_to(spec: GroupSpec) -> None:
    """B-E3: when somebody comes, he alone is given something."""
    topics = frozenset(spec.partition_counts)
    members = {name: MemberSpec(topics) for name in spec.members}
    if not members:
        return
    shares = assign(GroupSpec(members, spec.partition_counts))
    grown = again(GroupSpec(members, spec.partition_counts), shares) | {"new": MemberSpec(topics)}
    after = assign(GroupSpec(grown, spec.partition_counts))
    moved = Counter(name for place, name in owners(after).items() if owners(shares)[place] != name)
    assert set(moved) <= {"new"}
