"""Requests of members, and what becomes of their group (B-E2)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.coordinator.group.group_metadata import GroupState
from fastprod.broker.coordinator.group.member_metadata import Leaving
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from support.groups.group_world import GroupWorld, subscribed

STICKY = [("sticky", subscribed("t"))]


def test_one_member_joins_syncs_and_leaves() -> None:
    """B-E2"""
    world = GroupWorld()
    joined = world.join().join()
    assert (joined.error, joined.generation_id, joined.protocol_name) == (NONE, 1, "range")
    assert joined.leader_id == joined.member_id
    assert [each.member_id for each in joined.members] == [joined.member_id]
    assert joined.members[0].metadata == subscribed("t")
    synced = world.sync(joined.member_id, 1, {joined.member_id: b"mine"}).sync()
    assert (synced.error, synced.assignment) == (NONE, b"mine")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert world.group().is_in(GroupState.STABLE)
    assert world.heartbeat(joined.member_id, 1) == NONE
    assert world.leave(Leaving(joined.member_id)) == (NONE, [NONE])
    assert world.group().is_in(GroupState.EMPTY)
    assert world.group().generation_id == 2


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, UNKNOWN_MEMBER_ID),
        ({"protocols": []}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_who_cannot_join_an_empty_group(changed: dict[str, Any], code: int) -> None:
    """B-E2"""
    assert GroupWorld().join(**changed).join().error == code


@pytest.mark.parametrize(
    "changed", [{"protocols": STICKY}, {"protocol_type": "connect"}, {"protocols": []}]
)
def test_who_does_not_fit_the_members_cannot_join(changed: dict[str, Any]) -> None:
    """B-E2"""
    world = GroupWorld()
    (member,) = world.stable()
    assert world.join(**changed).join().error == INCONSISTENT_GROUP_PROTOCOL
    assert world.heartbeat(member, 1) == NONE


def test_another_node_says_so() -> None:
    """B-E1, B-E2"""
    world = GroupWorld()
    assert world.join(node=1 - world.node()).join().error == NOT_COORDINATOR


def test_a_new_member_comes_back_with_its_id() -> None:
    """B-E2, KIP-394."""
    world = GroupWorld()
    first = world.join(requires_known_id=True).join()
    assert (first.error, first.member_id[:7]) == (MEMBER_ID_REQUIRED, "client-")
    assert world.group().is_in(GroupState.EMPTY)
    joined = world.join(first.member_id, requires_known_id=True).join()
    assert (joined.error, joined.member_id, joined.generation_id) == (NONE, first.member_id, 1)
    assert not world.group().pending_members


def test_a_rebalance_waits_for_an_id_that_was_given_away() -> None:
    """B-E2: testPendingMemberJoins."""
    world = GroupWorld()
    (old,) = world.stable()
    pending = world.join(requires_known_id=True).join().member_id
    again = world.join(old)
    assert not again.is_given
    joined = world.join(pending, requires_known_id=True)
    assert joined.join().error == again.join().error == NONE
    assert world.group().members.keys() == {old, pending}


def test_an_id_that_was_given_away_may_leave() -> None:
    """B-E2: testPendingMembersLeavesGroup."""
    world = GroupWorld()
    (old,) = world.stable()
    pending = world.join(requires_known_id=True).join().member_id
    again = world.join(old)
    assert world.leave(Leaving(pending)) == (NONE, [NONE])
    assert again.join().generation_id == 2
    assert world.join(pending).join().error == UNKNOWN_MEMBER_ID


def test_two_members_have_one_generation_and_one_leader() -> None:
    """B-E2"""
    world = GroupWorld()
    (first,) = world.stable()
    second = world.join()
    assert not second.is_given
    assert world.heartbeat(first, 1) == REBALANCE_IN_PROGRESS
    led = world.join(first).join()
    followed = second.join()
    assert (led.generation_id, followed.generation_id) == (2, 2)
    assert led.leader_id == followed.leader_id == first
    assert {each.member_id for each in led.members} == {first, followed.member_id}
    assert followed.members == ()
    waiting = world.sync(followed.member_id, 2)
    assert not waiting.is_given
    assert world.heartbeat(followed.member_id, 2) == NONE
    mine = world.sync(first, 2, {first: b"1", followed.member_id: b"2"}).sync()
    assert (mine.assignment, waiting.sync().assignment) == (b"1", b"2")
    # Too late for the leader's answer, or lost on its way.
    assert world.sync(followed.member_id, 2).sync().assignment == b"2"


def test_who_is_given_nothing_gets_an_empty_assignment() -> None:
    """B-E2"""
    world = GroupWorld()
    first, second = world.stable(2)
    world.join(first)
    world.join(second)
    group = world.group()
    assert group.is_in(GroupState.COMPLETING_REBALANCE)
    world.sync(first, group.generation_id, {first: b"all"})
    assert world.sync(second, group.generation_id).sync().assignment == b""


def test_only_a_leader_or_a_change_rebalances_a_stable_group() -> None:
    """B-E2: an unchanged follower that joins again gets the generation that there is."""
    world = GroupWorld()
    leader, follower = world.stable(2)
    generation = world.group().generation_id
    again = world.join(follower).join()
    assert (again.error, again.generation_id, again.members) == (NONE, generation, ())
    assert world.group().is_in(GroupState.STABLE)
    changed = world.join(follower, protocols=[("range", subscribed("u"))])
    assert not changed.is_given
    assert world.join(leader).join().generation_id == generation + 1
    world.sync_all([leader, follower])
    assert not world.join(leader).is_given
    assert world.group().is_in(GroupState.PREPARING_REBALANCE)


def test_who_missed_the_answer_gets_it_again() -> None:
    """B-E2: testJoinGroupUnchanged in CompletingRebalance, of leader and follower."""
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    generation = world.group().generation_id
    assert {each.member_id for each in world.join(leader).join().members} == {leader, follower}
    assert world.join(follower).join().members == ()
    assert world.join(follower).join().generation_id == generation
    world.join(follower, protocols=[("range", b"other")])
    assert world.group().is_in(GroupState.PREPARING_REBALANCE)


def test_a_new_rebalance_takes_back_the_syncs_that_wait() -> None:
    """B-E2"""
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    generation = world.group().generation_id
    waiting = world.sync(follower, generation)
    world.join()
    assert waiting.sync().error == REBALANCE_IN_PROGRESS
    assert world.sync(leader, generation).sync().error == REBALANCE_IN_PROGRESS


def test_wrong_generations_members_and_protocols_are_refused() -> None:
    """B-E2"""
    world = GroupWorld()
    assert world.sync("x", 1).sync().error == UNKNOWN_MEMBER_ID
    assert world.heartbeat("x", 1) == UNKNOWN_MEMBER_ID
    assert world.leave(Leaving("x"), Leaving("y")) == (NONE, [UNKNOWN_MEMBER_ID] * 2)
    (member,) = world.stable()
    assert world.sync("x", 1).sync().error == UNKNOWN_MEMBER_ID
    assert world.sync(member, 7).sync().error == ILLEGAL_GENERATION
    assert world.sync(member, 1, kind="connect").sync().error == INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(member, 1, name="sticky").sync().error == INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(member, 1, kind="consumer", name="range").sync().error == NONE
    assert world.heartbeat("x", 1) == UNKNOWN_MEMBER_ID
    assert world.heartbeat(member, 0) == ILLEGAL_GENERATION
    assert world.leave(Leaving("x"), Leaving(member)) == (NONE, [UNKNOWN_MEMBER_ID, NONE])
    assert world.heartbeat(member, 1) == UNKNOWN_MEMBER_ID
    assert world.join(member).join().error == UNKNOWN_MEMBER_ID


def test_without_a_name_there_is_no_group() -> None:
    """B-E2"""
    world = GroupWorld()
    node = world.node("")
    assert world.sync("m", 1, group_id="").sync().error == INVALID_GROUP_ID
    assert world.coordinator.heartbeat("", 1, "m", None, node) == INVALID_GROUP_ID
    assert world.coordinator.leave_group("", [Leaving("m")], node) == (INVALID_GROUP_ID, [])


def test_a_full_group_takes_no_more_members() -> None:
    """B-E2: GROUP_MAX_SIZE_REACHED."""
    world = GroupWorld(group_max_size=2)
    members = world.stable(2)
    refused = world.join().join()
    assert (refused.error, refused.member_id) == (GROUP_MAX_SIZE_REACHED, "")
    again = [world.join(each) for each in members]
    assert [each.join().error for each in again] == [NONE, NONE]
    world.leave(Leaving(members[0]))
    assert not world.join().is_given


def test_a_restarted_static_member_goes_on_without_a_rebalance() -> None:
    """B-E2, KIP-345; the old leader's id hides that it leads, as it cannot skip its work."""
    world = GroupWorld()
    (old,) = world.stable(group_instance_id="i")
    assert old.startswith("i-")
    new = world.join(group_instance_id="i").join()
    assert (new.error, new.generation_id, new.leader_id, new.members) == (NONE, 1, old, ())
    assert new.member_id != old
    assert world.group().is_in(GroupState.STABLE)
    assert world.sync(new.member_id, 1, instance="i").sync().assignment == old.encode()
    assert world.heartbeat(old, 1, "i") == FENCED_INSTANCE_ID
    assert world.sync(old, 1, instance="i").sync().error == FENCED_INSTANCE_ID
    assert world.join(old, group_instance_id="i").join().error == FENCED_INSTANCE_ID
    assert world.leave(Leaving(old, "i")) == (NONE, [FENCED_INSTANCE_ID])
    assert world.commit({("t", 0): 1}, old, 1, instance="i") == {("t", 0): FENCED_INSTANCE_ID}
    assert world.heartbeat(new.member_id, 1, "i") == NONE
    assert world.heartbeat(new.member_id, 1, "j") == UNKNOWN_MEMBER_ID


def test_a_restarted_leader_is_told_to_leave_the_assignment_as_it_is() -> None:
    """B-E2, KIP-814."""
    world = GroupWorld()
    (old,) = world.stable(group_instance_id="i")
    new = world.join(group_instance_id="i", supports_skipping=True).join()
    assert (new.leader_id, new.skips_assignment) == (new.member_id, True)
    assert [each.member_id for each in new.members] == [new.member_id]
    assert old not in world.group().members


def test_a_restarted_static_member_with_another_protocol_rebalances() -> None:
    """B-E2, KIP-345."""
    world = GroupWorld()
    both = [("range", b"1"), ("sticky", b"2")]
    world.stable(group_instance_id="i", protocols=both)
    new = world.join(group_instance_id="i", protocols=both[::-1]).join()
    assert (new.generation_id, new.protocol_name) == (2, "sticky")


def test_a_static_member_that_restarts_while_all_join_or_sync() -> None:
    """B-E2, KIP-345: staticMemberRejoin in each state."""
    world = GroupWorld()
    (leader,) = world.stable()
    waiting = world.join(group_instance_id="i")
    restarted = world.join(group_instance_id="i")
    assert waiting.join().error == FENCED_INSTANCE_ID
    assert not restarted.is_given
    world.join(leader)
    member = restarted.join().member_id
    synced = world.sync(member, 2, instance="i")
    # The leader may assign to the id that it knows: once more, then.
    again = world.join(group_instance_id="i")
    assert synced.sync().error == FENCED_INSTANCE_ID
    assert not again.is_given
    assert world.join(leader).join().generation_id == again.join().generation_id == 3


def test_an_administrator_removes_a_static_member() -> None:
    """B-E2: LeaveGroup with the instance alone."""
    world = GroupWorld()
    world.stable(group_instance_id="i")
    assert world.leave(Leaving("", "j"), Leaving("", "i"), Leaving("")) == (
        NONE,
        [UNKNOWN_MEMBER_ID, NONE, UNKNOWN_MEMBER_ID],
    )
    assert world.group().is_in(GroupState.EMPTY)


def test_groups_are_listed_by_node_and_state() -> None:
    """B-E2: ListGroups."""
    world = GroupWorld()
    world.stable()
    for number in range(20):
        world.commit({("t", 0): 1}, group_id=f"simple {number}")
    listed = [each for node in (0, 1) for each in world.coordinator.list_groups([], node)[1]]
    assert len(listed) == 21
    assert {each.state for each in listed} == {"Stable", "Empty"}
    (stable,) = world.coordinator.list_groups(["STABLE"], world.node())[1]
    assert (stable.group_id, stable.protocol_type) == ("g", "consumer")
    assert world.coordinator.list_groups(["Dead"], world.node()) == (NONE, [])


def test_a_group_is_described() -> None:
    """B-E2: DescribeGroups; what members say is told of a stable group only."""
    world = GroupWorld()
    (member,) = world.stable()
    code, summary = world.coordinator.describe_group("g", world.node())
    assert (code, summary.state, summary.protocol_type, summary.protocol) == (
        NONE,
        "Stable",
        "consumer",
        "range",
    )
    (found,) = summary.members
    assert (found.member_id, found.client_id, found.client_host) == (
        member,
        "client",
        "/127.0.0.1",
    )
    assert (found.metadata, found.assignment) == (subscribed("t"), member.encode())
    world.join()
    _, summary = world.coordinator.describe_group("g", world.node())
    assert (summary.state, summary.protocol) == ("PreparingRebalance", "")
    assert [(each.metadata, each.assignment) for each in summary.members] == [(b"", b"")] * 2
    code, summary = world.coordinator.describe_group("none", world.node("none"))
    assert (code, summary.state) == (GROUP_ID_NOT_FOUND, "Dead")
    code, _ = world.coordinator.describe_group("g", 1 - world.node())
    assert code == NOT_COORDINATOR


def test_a_group_without_members_is_deleted() -> None:
    """B-E2: DeleteGroups."""
    world = GroupWorld()
    (member,) = world.stable()
    world.commit({("t", 0): 5}, member, 1)
    assert world.coordinator.delete_group("g", world.node()) == NON_EMPTY_GROUP
    world.leave(Leaving(member))
    assert world.fetched() == {("t", 0): 5}
    assert world.coordinator.delete_group("g", world.node()) == NONE
    assert world.coordinator.delete_group("g", world.node()) == GROUP_ID_NOT_FOUND
    assert world.fetched() == {}
    assert world.successor().fetched() == {}


def test_a_closing_broker_answers_everybody_who_waits() -> None:
    """B-E2"""
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    syncing = world.sync(follower, world.group().generation_id)
    other = GroupWorld()
    other.stable(2)
    joining = other.join()
    world.coordinator.close()
    other.coordinator.close()
    other.coordinator.close()
    assert syncing.sync().error == COORDINATOR_NOT_AVAILABLE
    assert joining.join().error == COORDINATOR_NOT_AVAILABLE
    assert world.join().join().error == COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(leader, 1) == COORDINATOR_NOT_AVAILABLE
    assert world.coordinator.list_groups([], world.node()) == (COORDINATOR_NOT_AVAILABLE, [])
