"""Deadlines of members and rebalances, by a clock that is moved by hand (B-E2)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.group_metadata import GroupState
from fastprod.broker.coordinator.group.member_metadata import Leaving
from fastprod.broker.coordinator.group.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from fastprod.error_codes import NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID
from support.groups.group_world import REBALANCE_MS, SESSION_MS, GroupWorld


def test_a_silent_member_is_taken_out() -> None:
    """B-E2: session time-out, Empty if it was the last one."""
    world = GroupWorld()
    (member,) = world.stable()
    world.purgatory.advance(SESSION_MS - 1)
    assert world.heartbeat(member, 1) == NONE
    world.purgatory.advance(SESSION_MS - 1)
    assert world.heartbeat(member, 1) == NONE
    world.purgatory.advance(SESSION_MS)
    assert world.heartbeat(member, 1) == UNKNOWN_MEMBER_ID
    assert world.group().is_in(GroupState.EMPTY)
    assert not world.group().members


def test_commits_syncs_and_joins_are_signs_of_life_too() -> None:
    """B-E2"""
    world = GroupWorld()
    (member,) = world.stable()
    half_ms = SESSION_MS // 2 + 1
    world.purgatory.advance(half_ms)
    assert world.commit({("t", 0): 1}, member, 1) == {("t", 0): NONE}
    world.purgatory.advance(half_ms)
    assert world.sync(member, 1).sync().error == NONE
    world.purgatory.advance(half_ms)
    assert world.join(member).join().generation_id == 2
    world.purgatory.advance(half_ms)
    assert world.heartbeat(member, 2) == NONE


def test_a_thousand_heartbeats_need_one_timer() -> None:
    """B-A5.6"""
    world = GroupWorld()
    (member,) = world.stable()
    before = len(world.purgatory.pending)
    for _ in range(1000):
        assert world.heartbeat(member, 1) == NONE
    assert len(world.purgatory.pending) == before


def test_the_others_share_what_a_silent_member_had() -> None:
    """B-E2"""
    world = GroupWorld()
    first, second = world.stable(2)
    generation = world.group().generation_id
    world.purgatory.advance(SESSION_MS // 2)
    assert world.heartbeat(first, generation) == NONE
    world.purgatory.advance(SESSION_MS // 2)
    assert world.heartbeat(first, generation) == REBALANCE_IN_PROGRESS
    assert world.join(first).join().generation_id == generation + 1
    assert world.group().members.keys() == {first}
    assert world.heartbeat(second, generation) == UNKNOWN_MEMBER_ID


def test_who_does_not_join_again_in_time_is_left_behind() -> None:
    """B-E2: the largest rebalance time-out of all members counts."""
    world = GroupWorld()
    slow, other = world.stable(2, session_timeout_ms=2 * REBALANCE_MS)
    newest = world.join(rebalance_timeout_ms=REBALANCE_MS + 1)
    world.join(other, session_timeout_ms=2 * REBALANCE_MS)
    world.purgatory.advance(REBALANCE_MS)
    assert not newest.is_given
    world.purgatory.advance(1)
    joined = newest.join()
    assert joined.error == NONE
    assert world.group().members.keys() == {other, joined.member_id}
    # The leader stayed behind.
    assert joined.leader_id == other
    assert world.heartbeat(slow, joined.generation_id) == UNKNOWN_MEMBER_ID


def test_a_static_member_keeps_its_place_while_its_session_lasts() -> None:
    """B-E2, KIP-345."""
    world = GroupWorld()
    (static,) = world.stable(group_instance_id="i", session_timeout_ms=3 * REBALANCE_MS)
    newest = world.join()
    world.purgatory.advance(REBALANCE_MS)
    joined = newest.join()
    assert joined.leader_id == joined.member_id
    assert world.group().members.keys() == {static, joined.member_id}
    assert {each.member_id for each in joined.members} == {static, joined.member_id}


def test_static_members_alone_that_are_gone_end_with_their_sessions() -> None:
    """B-E2: a rebalance that nobody joins goes on until they expire."""
    world = GroupWorld()
    (static,) = world.stable(group_instance_id="i", session_timeout_ms=3 * REBALANCE_MS)
    newest_id, newest = world.join_twice()
    assert not newest.is_given
    assert world.leave(Leaving(newest_id)) == (NONE, [NONE])
    assert newest.join().error == UNKNOWN_MEMBER_ID
    world.purgatory.advance(2 * REBALANCE_MS)
    assert world.group().is_in(GroupState.PREPARING_REBALANCE)
    assert world.group().members.keys() == {static}
    world.purgatory.advance(REBALANCE_MS)
    assert world.group().is_in(GroupState.EMPTY)


def test_who_waits_for_the_others_need_not_show_that_it_lives() -> None:
    """B-E2"""
    world = GroupWorld()
    first, second = world.stable(2)
    again = world.join(first)
    assert world.leave(Leaving("nobody")) == (NONE, [UNKNOWN_MEMBER_ID])
    # Its leader joins, the other one is silent and taken out when its own session ends.
    world.purgatory.advance(SESSION_MS)
    assert again.join().error == NONE
    assert world.group().members.keys() == {first}
    assert second not in world.group().members


def test_who_waits_for_an_assignment_need_not_show_that_it_lives() -> None:
    """B-E2: its session begins when it is answered."""
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    world.join(follower)
    generation = world.group().generation_id
    waiting = world.sync(follower, generation)
    world.purgatory.advance(SESSION_MS - 1)
    assert world.heartbeat(leader, generation) == NONE
    world.purgatory.advance(SESSION_MS - 1)
    world.sync(leader, generation, {follower: b"2"})
    assert waiting.sync().assignment == b"2"
    world.purgatory.advance(SESSION_MS - 1)
    assert world.heartbeat(follower, generation) == NONE


def test_a_new_member_that_nobody_answers_is_forgotten() -> None:
    """B-E2: its client may be gone, its connection cannot tell."""
    world = GroupWorld()
    hours = 20 * NEW_MEMBER_JOIN_TIMEOUT_MS
    (slow,) = world.stable(session_timeout_ms=1_800_000, rebalance_timeout_ms=hours)
    newest = world.join(session_timeout_ms=SESSION_MS)
    world.purgatory.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert not newest.is_given
    world.purgatory.advance(1)
    assert newest.join().error == UNKNOWN_MEMBER_ID
    assert world.group().members.keys() == {slow}


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    """B-E2: testPendingMemberTimesOut."""
    world = GroupWorld()
    (old,) = world.stable(session_timeout_ms=5 * SESSION_MS)
    pending = world.join(requires_known_id=True).join().member_id
    again = world.join(old, session_timeout_ms=5 * SESSION_MS)
    world.purgatory.advance(SESSION_MS - 1)
    assert not again.is_given
    world.purgatory.advance(1)
    assert again.join().generation_id == 2
    assert world.join(pending).join().error == UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_assign_is_left_behind() -> None:
    """B-E2: testRebalanceTimesOutWhenSyncRequestIsNotReceived."""
    world = GroupWorld()
    leader, follower = world.stable(2, session_timeout_ms=2 * REBALANCE_MS)
    for each in (leader, follower):
        world.join(each, session_timeout_ms=2 * REBALANCE_MS)
    generation = world.group().generation_id
    waiting = world.sync(follower, generation)
    world.purgatory.advance(REBALANCE_MS - 1)
    assert not waiting.is_given
    world.purgatory.advance(1)
    assert waiting.sync().error == REBALANCE_IN_PROGRESS
    assert world.group().members.keys() == {follower}
    assert world.join(follower).join().leader_id == follower


def test_a_follower_that_does_not_ask_is_left_behind() -> None:
    """B-E2: testRebalanceTimesOutWhenSyncRequestIsNotReceived, of a stable group."""
    world = GroupWorld()
    long_ms = 2 * REBALANCE_MS
    leader, follower = world.stable(2, session_timeout_ms=long_ms)
    for each in (leader, follower):
        world.join(each, session_timeout_ms=long_ms)
    generation = world.group().generation_id
    assert world.sync(leader, generation, {}).sync().error == NONE
    assert world.group().is_in(GroupState.STABLE)
    world.purgatory.advance(REBALANCE_MS)
    assert world.group().members.keys() == {leader}
    assert world.heartbeat(leader, generation) == REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower, generation) == UNKNOWN_MEMBER_ID


def test_an_empty_group_waits_for_more_members_if_it_is_told_to() -> None:
    """B-E2, KIP-134: group.initial.rebalance.delay.ms, and again while members come."""
    world = GroupWorld(group_initial_rebalance_delay_ms=3000)
    first = world.join()
    world.purgatory.advance(2999)
    second = world.join()
    world.purgatory.advance(1)
    assert not first.is_given
    world.purgatory.advance(2999)
    assert not first.is_given
    world.purgatory.advance(1)
    assert first.join().generation_id == second.join().generation_id == 1
    assert len(first.join().members) == 2


def test_the_first_rebalance_ends_when_the_members_patience_does() -> None:
    """B-E2, KIP-134."""
    world = GroupWorld(group_initial_rebalance_delay_ms=3000)
    answers = [world.join(rebalance_timeout_ms=7000)]
    for _ in range(3):
        world.purgatory.advance(1999)
        answers.append(world.join(rebalance_timeout_ms=7000))
    world.purgatory.advance(7000 - 3 * 1999 - 1)
    assert not any(each.is_given for each in answers)
    world.purgatory.advance(1)
    assert {each.join().generation_id for each in answers} == {1}


def test_nothing_is_left_of_a_group_that_has_ended() -> None:
    """B-A5.6: but the look for old offsets."""
    world = GroupWorld()
    members = world.stable(3)
    world.join(requires_known_id=True)
    (pending,) = world.group().pending_members
    world.leave(*(Leaving(each) for each in (*members, pending)))
    assert world.group().is_in(GroupState.EMPTY)
    assert len(world.purgatory.pending) == 1
