"""Offsets committed, fetched, deleted and expired (B-E2)."""

from __future__ import annotations

import pytest

from fastprod.broker.cluster.partition import NO_NODE
from fastprod.broker.coordinator.group.group import Group
from fastprod.broker.coordinator.group.group_metadata import GroupState
from fastprod.broker.coordinator.group.member_metadata import Leaving
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INVALID_COMMIT_OFFSET_SIZE,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from support.broker.world import move_leader
from support.groups.group_world import GroupWorld

DAY_MS = 86_400_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def test_a_member_commits_and_everybody_may_ask() -> None:
    """B-E2: OffsetCommit, OffsetFetch."""
    world = GroupWorld()
    (member,) = world.stable()
    assert world.fetched() == {}
    assert world.commit({T0: 5, T1: 6}, member, 1) == {T0: NONE, T1: NONE}
    assert world.commit({T0: 7}, member, 1, metadata="note") == {T0: NONE}
    assert world.fetched() == {T0: 7, T1: 6}
    code, found = world.offsets.fetch("g", [T0, U0], world.node())
    assert (code, list(found), found[T0].metadata) == (NONE, [T0], "note")
    assert world.grown[-1] is world.partition()


def test_who_is_no_member_commits_to_a_group_without_members_alone() -> None:
    """B-E2: the simple consumer, and administrators."""
    world = GroupWorld()
    assert world.commit({T0: 1}, group_id="") == {T0: NONE}
    assert world.fetched("") == {T0: 1}
    assert world.commit({T0: 1}) == {T0: NONE}
    (member,) = world.stable()
    assert world.commit({T0: 2}) == {T0: UNKNOWN_MEMBER_ID}
    world.leave(Leaving(member))
    assert world.commit({T0: 3}) == {T0: NONE}
    assert world.fetched() == {T0: 3}


def test_who_is_not_that_member_does_not_commit() -> None:
    """B-E2"""
    world = GroupWorld()
    assert world.commit({T0: 1}, "m", 1) == {T0: ILLEGAL_GENERATION}
    assert world.commit({T0: 1}, "m", 1, knows_epochs=True) == {T0: GROUP_ID_NOT_FOUND}
    (member,) = world.stable()
    assert world.commit({T0: 1}, "other", 1) == {T0: UNKNOWN_MEMBER_ID}
    assert world.commit({T0: 1}, member, 0) == {T0: ILLEGAL_GENERATION}
    assert world.commit({T0: 1}, member, 1, instance="i") == {T0: UNKNOWN_MEMBER_ID}
    assert world.fetched() == {}


def test_a_member_commits_while_all_join_but_not_while_all_sync() -> None:
    """B-E2: CompletingRebalance is REBALANCE_IN_PROGRESS."""
    world = GroupWorld()
    leader, follower = world.stable(2)
    generation = world.group().generation_id
    world.join(leader)
    assert world.group().is_in(GroupState.PREPARING_REBALANCE)
    assert world.commit({T0: 1}, follower, generation) == {T0: NONE}
    world.join(follower)
    assert world.commit({T0: 2}, follower, generation + 1) == {T0: REBALANCE_IN_PROGRESS}
    assert world.fetched() == {T0: 1}


def found_too_early(world: GroupWorld) -> None:
    """Have the group move to the other node just after somebody has found it here."""
    item = world.manager.item

    def find(key: str, node_id: int | None, creates: bool = False) -> Group | None:
        del world.manager.item
        found = item(key, node_id, creates)
        other = 1 - world.node()
        move_leader(world.partition(), other, [0, 1])
        assert item(key, other) is not found
        return found

    world.manager.item = find  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("who", ["a classic group's user", "a user", "a member"])
def test_a_commit_to_a_group_that_has_just_moved_is_not_lost(who: str) -> None:
    """B-E1, B-E2: what is told to be committed is what the other node tells."""
    world = GroupWorld()
    assert world.commit({T0: 1}) == {T0: NONE}
    member, generation = "", -1
    if who != "a classic group's user":
        epoch = world.come("m").member_epoch
        member, generation = ("m", epoch) if who == "a member" else ("", -1)
        if who == "a user":
            assert world.beat("m", -1).error == NONE
    found_too_early(world)
    code = world.commit({T0: 5}, member, generation, knows_epochs=True)[T0]
    assert code == COORDINATOR_NOT_AVAILABLE
    assert world.fetched() == {T0: 1}
    assert world.commit({T0: 5}, member, generation, knows_epochs=True) == {T0: NONE}
    assert world.fetched() == {T0: 5}


def test_who_asks_a_group_that_has_just_moved_is_not_told_that_it_has_no_offsets() -> None:
    """B-E1: the reader would begin at the start, or at the end."""
    world = GroupWorld()
    assert world.commit({T0: 1}) == {T0: NONE}
    found_too_early(world)
    assert world.offsets.fetch("g", [T0], world.node()) == (NOT_COORDINATOR, {})
    assert world.fetched() == {T0: 1}


def test_a_note_that_is_too_long_fails_alone() -> None:
    """B-E2: OFFSET_METADATA_TOO_LARGE."""
    world = GroupWorld(offset_metadata_max_bytes=4)
    assert world.commit({T0: 1}, metadata="five!") == {T0: OFFSET_METADATA_TOO_LARGE}
    assert world.commit({T0: 1}, metadata="four") == {T0: NONE}


def test_a_commit_that_the_log_does_not_take_is_not_known() -> None:
    """B-E2"""
    world = GroupWorld(message_max_bytes=300)
    many = {("t", number): 1 for number in range(40)}
    assert set(world.commit(many).values()) == {INVALID_COMMIT_OFFSET_SIZE}
    assert world.fetched() == {}
    world.partition().log.close()
    assert world.commit({T0: 1}) == {T0: NOT_COORDINATOR}
    other = GroupWorld(min_insync_replicas=2)
    other.partition().sync_isr([other.node()])
    assert other.commit({T0: 1}) == {T0: COORDINATOR_NOT_AVAILABLE}


def test_offsets_are_deleted_where_nobody_reads() -> None:
    """B-E2: OffsetDelete."""
    world = GroupWorld()
    assert world.offsets.delete_offsets("g", [T0], world.node()) == (GROUP_ID_NOT_FOUND, {})
    (member,) = world.stable()
    world.commit({T0: 1, U0: 2}, member, 1)
    assert world.offsets.delete_offsets("g", [T0, U0], world.node()) == (
        NONE,
        {T0: GROUP_SUBSCRIBED_TO_TOPIC, U0: NONE},
    )
    assert world.fetched() == {T0: 1}
    world.leave(Leaving(member))
    assert world.offsets.delete_offsets("g", [T0, T1], world.node()) == (NONE, {T0: NONE, T1: NONE})
    assert world.fetched() == {}
    world.stable(protocol_type="connect")
    assert world.offsets.delete_offsets("g", [T0], world.node()) == (NON_EMPTY_GROUP, {})
    assert world.successor().fetched() == {}


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    """B-D4.3: of groups too that nobody has asked for since the start."""
    world = GroupWorld()
    world.commit({T0: 1, U0: 2})
    world.offsets.topics_deleted(["t"])
    assert world.fetched() == {U0: 2}
    later = world.successor()
    later.offsets.topics_deleted(["u"])
    assert later.fetched() == {}
    assert later.successor().fetched() == {}


def test_a_deleted_topic_takes_offsets_along_that_cannot_be_written_down_now() -> None:
    """B-D4.3: a new topic of that name would begin there; what it has itself stays."""
    world = GroupWorld(min_insync_replicas=2)
    world.commit({T0: 1, T1: 1, U0: 2})
    partition = world.partition()
    in_sync = list(partition.isr)
    partition.sync_isr(in_sync[:1])
    world.offsets.topics_deleted(["t"])
    assert world.fetched() == {U0: 2}
    world.purgatory.advance(1000)
    partition.sync_isr(in_sync)
    world.commit({T1: 5})
    world.purgatory.advance(1000)
    assert world.fetched() == world.successor().fetched() == {T1: 5, U0: 2}


def test_a_deleted_topic_takes_offsets_along_that_nobody_coordinates_now() -> None:
    """B-D4.3: the next coordinator reads them in the log."""
    world = GroupWorld()
    world.commit({T0: 1, U0: 2})
    partition = world.partition()
    node = world.node()
    move_leader(partition, NO_NODE, {0, 1})
    world.offsets.topics_deleted(["t"])
    world.purgatory.advance(1000)
    move_leader(partition, node, {0, 1})
    world.purgatory.advance(1000)
    assert world.fetched() == world.successor().fetched() == {U0: 2}


def test_offsets_of_a_group_without_members_expire() -> None:
    """B-E2, KIP-211; the group goes with them."""
    world = GroupWorld(offsets_retention_minutes=24 * 60)
    (member,) = world.stable()
    world.commit({T0: 1, U0: 2}, member, 1)
    world.leave(Leaving(member))
    world.purgatory.advance(DAY_MS - 1)
    assert world.fetched() == {T0: 1, U0: 2}
    world.purgatory.advance(1)
    assert world.fetched() == {}
    assert world.manager.item("g", world.node()) is None
    assert world.purgatory.pending == []
    assert world.successor().manager.item("g", world.node()) is None


def test_a_stable_group_keeps_the_offsets_of_what_it_reads() -> None:
    """B-E2, KIP-211."""
    world = GroupWorld(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    (member,) = world.stable()
    world.commit({T0: 1, U0: 2}, member, 1)
    for _ in range(13):
        world.purgatory.advance(5000)
        assert world.heartbeat(member, 1) == NONE
    assert world.fetched() == {T0: 1}


def test_an_offset_expires_when_its_client_said() -> None:
    """B-E2: retention_time_ms up to version 4."""
    world = GroupWorld(offsets_retention_check_interval_ms=1000)
    world.commit({T0: 1}, expires_ms=world.clock.time_ms() + 1500)
    world.commit({T1: 1})
    world.purgatory.advance(1000)
    assert world.fetched() == {T0: 1, T1: 1}
    world.purgatory.advance(1000)
    assert world.fetched() == {T1: 1}


def test_an_id_that_was_given_away_keeps_its_group() -> None:
    """B-E2: an empty group that somebody is about to join does not end."""
    world = GroupWorld(offsets_retention_check_interval_ms=1000)
    pending = world.join(requires_known_id=True).join().member_id
    world.purgatory.advance(1000)
    assert world.join(pending, requires_known_id=True).join().error == NONE
