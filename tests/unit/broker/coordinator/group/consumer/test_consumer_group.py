"""A group that the broker assigns: states, offsets, records (B-E3)."""

from __future__ import annotations

import pytest

from fastprod.broker.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
)
from fastprod.broker.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from fastprod.broker.coordinator.group.consumer.consumer_group_records import current_record
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.error_codes import (
    ILLEGAL_GENERATION,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)
from support.groups.group_world import GroupWorld

ALL = [0, 1, 2, 3]
T0, T3, U0 = ("t", 0), ("t", 3), ("u", 0)


def test_each_state_is_told() -> None:
    """B-E3: Kafka's names."""
    world = GroupWorld()
    world.come("a")
    group = world.consumer_group()
    states = [group.state]
    world.come("b")
    states.append(group.state)
    world.beat("a", 2, {"t": ALL})
    world.beat("a", 2, {"t": [0, 1]})
    world.beat("b", 3, {})
    states.append(group.state)
    world.beat("a", -1)
    states.append(group.state)
    world.beat("b", -1)
    states.append(group.state)
    assert world.coordinator.delete_group("g", world.node()) == NONE
    states.append(group.state)
    assert [each.name for each in states] == (
        ["STABLE", "RECONCILING", "STABLE", "ASSIGNING", "EMPTY", "DEAD"]
    )
    assert group.state is ConsumerGroupState.DEAD
    assert "Dead" in repr(group)


def test_members_commit_what_they_have_in_their_epoch() -> None:
    """B-E3, KIP-1251: also in an older one, but not from before they had it."""
    world = GroupWorld()
    world.come("a")
    world.come("b")
    world.beat("a", 2, {"t": ALL})

    def commit(member: str, epoch: int, *places: tuple[str, int]) -> list[int]:
        found = world.commit(dict.fromkeys(places, 7), member, epoch, knows_epochs=True)
        return [found[each] for each in places]

    # What it is giving up is still its own.
    assert commit("a", 2, T0, T3) == [NONE, NONE]
    world.beat("a", 2, {"t": [0, 1]})
    assert commit("a", 2, T0, T3) == [NONE, STALE_MEMBER_EPOCH]
    assert commit("a", 3, T0, U0) == [NONE, NONE]
    assert commit("a", 4, T0) == [STALE_MEMBER_EPOCH]
    world.beat("b", 3, {})
    assert commit("b", 2, T3) == [STALE_MEMBER_EPOCH]
    assert commit("b", 3, T3) == [NONE]
    assert commit("x", 3, T3) == [UNKNOWN_MEMBER_ID]
    assert commit("", -1, T3) == [UNKNOWN_MEMBER_ID]
    assert world.commit({T3: 1}, "b", 3) == {T3: UNSUPPORTED_VERSION}
    for member in ("a", "b"):
        world.beat(member, -1)
    assert commit("", -1, T3) == [NONE]


def test_offsets_of_transactions_know_generations_alone() -> None:
    """B-E4: TxnOffsetCommit."""
    world = GroupWorld()
    world.come("a")
    group = world.consumer_group()
    committing = world.committing({T0: 1}, "a", 9, is_transactional=True)
    with pytest.raises(CoordinatorError) as caught:
        group.check_commit(committing)
    assert caught.value.code == ILLEGAL_GENERATION
    assert group.check_commit(world.committing({T0: 1}, "", -1, is_transactional=True)) == {}
    assert group.check_commit(world.committing({T0: 1}, "a", 2, is_transactional=True)) == {}
    old = world.committing({U0: 1}, "a", 1, is_transactional=True)
    assert group.check_commit(old) == {U0: ILLEGAL_GENERATION}


def test_members_ask_for_offsets_in_their_epoch() -> None:
    """B-E3: OffsetFetch from version 9 on."""
    world = GroupWorld()
    world.come("a")
    fetch = world.offsets.fetch
    node = world.node()
    assert fetch("g", None, node)[0] == NONE
    assert fetch("g", None, node, False, "a", 2)[0] == NONE
    assert fetch("g", None, node, False, "a", 1)[0] == STALE_MEMBER_EPOCH
    assert fetch("g", None, node, False, "x", 2)[0] == UNKNOWN_MEMBER_ID


def test_old_offsets_of_what_nobody_reads_are_forgotten() -> None:
    """KIP-211, B-E3"""
    world = GroupWorld(offsets_retention_minutes=1)
    world.come("a")
    assert world.commit({T0: 1, U0: 2}, "a", 2, knows_epochs=True) == {T0: NONE, U0: NONE}
    world.clock.advance(60_000)
    world.offsets.expire()
    assert world.fetched() == {T0: 1}
    world.beat("a", -1)
    world.offsets.expire()
    assert world.manager.item("g", world.node()) is None


def test_offsets_of_what_is_read_cannot_be_deleted() -> None:
    """B-E3: OffsetDelete."""
    world = GroupWorld()
    world.come("a")
    world.commit({T0: 1, U0: 2}, "a", 2, knows_epochs=True)
    code, found = world.offsets.delete_offsets("g", [T0, U0], world.node())
    assert (code, found[U0], found[T0] != NONE) == (NONE, NONE, True)
    assert world.fetched() == {T0: 1}


def test_a_deleted_group_is_gone_for_the_next_coordinator_too() -> None:
    """B-E3"""
    world = GroupWorld()
    world.come("a", topics=None, topic_regex="t")
    world.commit({T0: 1}, "a", 2, knows_epochs=True)
    assert world.coordinator.delete_group("g", world.node()) != NONE
    world.beat("a", -1)
    assert world.coordinator.delete_group("g", world.node()) == NONE
    later = world.successor()
    assert later.manager.item("g", later.node()) is None


def test_topics_are_told_apart_by_id_and_size() -> None:
    """KIP-1101: the metadata hash."""
    world = GroupWorld()
    world.come("a")
    group = world.consumer_group()
    hashes = {group.hash_of(["t"]), group.hash_of(["t", "u"]), group.hash_of(["u"])}
    assert len(hashes) == 3
    assert group.hash_of(["nowhere"]) == group.hash_of([]) == 0
    before = group.hash_of(["t"])
    world.topics.delete("t")
    world.topics.create("t", 4)
    assert group.hash_of(["t"]) != before


def test_in_a_cleaned_log_the_next_owner_may_come_first() -> None:
    """B-C4.6, B-E3: of each member the newest record stays; what it gave up is not known then."""
    world = GroupWorld()
    group = ConsumerGroup("g", world.partition(), world.topics, GroupOffsets())
    topic_id = b"t" * 16
    before = ConsumerGroupMember("a", 2, assigned={topic_id: {0: 1, 1: 2}})
    after = ConsumerGroupMember("b", 3, assigned={topic_id: {1: 3}})
    for each in (before, after, before._replace(member_epoch=3, assigned={topic_id: {0: 1}})):
        group.replay(current_record("g", each))
    assert group.owners == {(topic_id, 0): "a", (topic_id, 1): "b"}
