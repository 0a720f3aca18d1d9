"""Who coordinates a group, and what is found again of it (B-E1, B-E2)."""

from __future__ import annotations

import contextlib

import pytest

from fastprod.broker.cluster.topics import OFFSETS_TOPIC
from fastprod.broker.coordinator.group.group_metadata import GroupState
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
)
from support.broker.world import move_leader
from support.groups.group_world import SESSION_MS, GroupWorld

T0, U0 = ("t", 0), ("u", 0)


def move(world: GroupWorld, group_id: str = "g") -> None:
    """Another node leads the group's partition from now on."""
    partition = world.partition(group_id)
    move_leader(partition, 1 - partition.leader, [0, 1])


def test_the_topic_is_kafkas() -> None:
    """B-E1: compacted, replicated as far as there are nodes."""
    topic = GroupWorld().topics.get(OFFSETS_TOPIC)
    assert topic is not None
    assert topic.is_internal
    assert topic.config.text("cleanup.policy") == "compact"
    assert [len(each.replicas) for each in topic.partitions] == [2, 2, 2]


def test_a_restarted_broker_knows_groups_members_and_offsets() -> None:
    """B-E2: members go on without a rebalance."""
    world = GroupWorld()
    leader, follower = world.stable(2)
    generation = world.group().generation_id
    world.commit({T0: 5, U0: 6}, leader, generation)
    later = world.successor()
    assert later.fetched() == {T0: 5, U0: 6}
    assert later.group().is_in(GroupState.STABLE)
    assert later.heartbeat(leader, generation) == NONE
    assert later.sync(follower, generation).sync().assignment == follower.encode()
    assert later.join(follower).join().generation_id == generation
    # Their sessions have begun anew.
    later.purgatory.advance(SESSION_MS)
    assert later.heartbeat(leader, generation) == UNKNOWN_MEMBER_ID


def test_the_last_word_about_an_offset_counts() -> None:
    """B-E2"""
    world = GroupWorld()
    for offset in range(100):
        world.commit({T0: offset, U0: 2 * offset})
    world.offsets.delete_offsets("g", [U0], world.node())
    assert world.successor().fetched() == {T0: 99}


def test_who_waits_when_another_node_takes_over_is_told() -> None:
    """B-E1, B-E2"""
    world = GroupWorld()
    members = world.stable(2)
    generation = world.group().generation_id
    joining = world.join()
    move(world)
    world.manager.drop_moved()
    assert joining.join().error == NOT_COORDINATOR
    # What was stable last is what the other node finds.
    assert world.group().is_in(GroupState.STABLE)
    assert world.group().members.keys() == set(members)
    assert [world.heartbeat(each, generation) for each in members] == [NONE, NONE]
    assert world.join(joining.join().member_id).join().error == UNKNOWN_MEMBER_ID


def test_the_next_request_finds_out_that_a_node_has_taken_over() -> None:
    """B-E1"""
    world = GroupWorld()
    (member,) = world.stable()
    before, old_node = world.group(), world.node()
    move(world)
    assert world.join(member, node=old_node).join().error == NOT_COORDINATOR
    assert world.heartbeat(member, 1) == NONE
    assert before.is_in(GroupState.DEAD)
    assert world.group() is not before


def test_without_a_leader_nobody_coordinates() -> None:
    """B-E1"""
    world = GroupWorld()
    move_leader(world.partition(), -1, [])
    assert world.manager.leader_of("g") == -1
    with pytest.raises(CoordinatorError) as refused:
        world.manager.item("g", 0)
    assert refused.value.code == NOT_COORDINATOR


def test_a_long_log_is_read_beside_the_network() -> None:
    """B-E2: COORDINATOR_LOAD_IN_PROGRESS meanwhile, but for heartbeats and syncs."""
    world = GroupWorld()
    (member,) = world.stable()
    while world.partition().log.size_bytes <= 256 * 1024:
        world.commit({T0: 1}, member, 1, metadata="x" * 4000)
    later = world.successor()
    assert later.join().join().error == COORDINATOR_LOAD_IN_PROGRESS
    assert later.heartbeat(member, 1) == NONE
    assert later.sync(member, 1).sync().error == REBALANCE_IN_PROGRESS
    assert later.coordinator.list_groups([], later.node())[0] == COORDINATOR_LOAD_IN_PROGRESS
    later.worker.run()
    assert later.heartbeat(member, 1) == NONE
    assert later.fetched() == {T0: 1}


def test_who_asks_for_all_groups_does_not_read_all_logs() -> None:
    """B-E2: as much as one log may have, and another thread reads the rest."""
    world = GroupWorld()
    names = {world.partition(name).index: name for name in map(str, range(20))}
    for name in names.values():
        for offset in range(45):
            world.commit({T0: offset}, group_id=name, metadata="x" * 4000)
    later = world.successor()
    mine = {name for name in names.values() if later.node(name) == 0}
    assert len(mine) == 2
    with pytest.raises(CoordinatorError) as refused:
        later.manager.items(0)
    assert refused.value.code == COORDINATOR_LOAD_IN_PROGRESS
    assert len(later.worker.waiting_actions) == 1
    later.worker.run()
    assert {each.key for each in later.manager.items(0)} == mine
    # A topic that is deleted takes along what is read only then.
    last = world.successor()
    last.offsets.topics_deleted(("t",))
    assert len(last.worker.waiting_actions) == 3
    last.worker.run()
    assert [last.fetched(name) for name in names.values()] == [{}, {}, {}]


def test_a_log_is_written_anew_when_most_of_it_is_old() -> None:
    """B-E2: in place of compaction."""
    world = GroupWorld()
    (member,) = world.stable()
    world.commit({U0: 7}, group_id="simple")
    log = world.partition().log
    note = "x" * 4000
    for offset in range(3000):
        world.commit({T0: offset, U0: 1}, member, 1, metadata=note)
        world.worker.run()
    assert log.log_end_offset > 6000
    assert log.size_bytes < 10 * 1024 * 1024
    assert log.log_start_offset > 0
    later = world.successor()
    for group_id in ("g", "simple"):
        with contextlib.suppress(CoordinatorError):
            later.manager.item(group_id, later.node(group_id))
    later.worker.run()
    assert later.fetched() == {T0: 2999, U0: 1}
    assert later.heartbeat(member, 1) == NONE
    assert later.fetched("simple") == {U0: 7}


def test_a_group_in_the_middle_of_a_rebalance_is_written_as_it_was_stable() -> None:
    """B-E2"""
    world = GroupWorld()
    (member,) = world.stable()
    world.join()
    loaded = world.manager._loaded[world.partition().index]
    world.manager._rewrite(loaded)
    later = world.successor()
    assert later.group().members.keys() == {member}
    assert later.heartbeat(member, 1) == NONE


def test_a_damaged_log_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    world = GroupWorld()
    world.commit({T0: 1})
    later = world.successor()
    replay = later.manager._replay
    later.manager._replay = lambda partition: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(CoordinatorError) as refused:
        later.manager.item("g", later.node())
    assert refused.value.code == COORDINATOR_LOAD_IN_PROGRESS
    assert "cannot be loaded" in caplog.text
    later.manager._replay = replay  # type: ignore[method-assign]
    assert later.fetched() == {T0: 1}


def test_a_generation_that_does_not_fit_is_refused() -> None:
    """B-E2: everybody has to join again."""
    world = GroupWorld(message_max_bytes=2000)
    joined = world.join().join()
    synced = world.sync(joined.member_id, 1, {joined.member_id: b"x" * 3000})
    assert synced.sync().error == UNKNOWN_SERVER_ERROR
    assert world.group().is_in(GroupState.PREPARING_REBALANCE)


def test_a_node_that_has_lost_the_groups_while_it_read_them_lets_them_be() -> None:
    """B-E1: else their sessions would end twice."""
    world = GroupWorld()
    (member,) = world.stable()
    while world.partition().log.size_bytes <= 256 * 1024:
        world.commit({T0: 1}, member, 1, metadata="x" * 4000)
    later = world.successor()
    assert later.heartbeat(member, 1) == NONE
    move(later)
    assert later.heartbeat(member, 1) == NONE
    assert later.purgatory.pending == []
    late, current = later.worker.waiting_actions
    current()
    assert later.group().is_in(GroupState.STABLE)
    before = len(later.purgatory.pending)
    late()
    assert len(later.purgatory.pending) == before
