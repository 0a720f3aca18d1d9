"""Members that come, live and go in groups that the broker assigns (B-E3)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from fastprod.broker.coordinator.group.member_metadata import Leaving
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_REGULAR_EXPRESSION,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
)
from support.groups.group_world import GroupWorld

ALL = [0, 1, 2, 3]


def entries(group: ConsumerGroup) -> list[Any]:
    return sorted(group.live_entries())


def test_one_member_is_given_everything_and_leaves() -> None:
    """B-E3"""
    world = GroupWorld()
    result = world.come("m")
    assert (result.error, result.member_id, result.member_epoch) == (NONE, "m", 2)
    assert result.heartbeat_interval_ms == world.config.group_consumer_heartbeat_interval_ms
    assert world.given(result) == {"t": ALL}
    again = world.beat("m", 2)
    assert (again.error, again.assignment) == (NONE, None)
    everything = world.beat("m", 2, {"t": ALL}, topics=["t"], rebalance_timeout_ms=9)
    assert world.given(everything) == {"t": ALL}
    assert world.consumer_group().state_name == "Stable"
    assert world.beat("m", -1).error == NONE
    assert world.consumer_group().state_name == "Empty"
    assert world.beat("m", 2).error == UNKNOWN_MEMBER_ID


def test_in_version_0_the_broker_names_members() -> None:
    """KIP-1082"""
    world = GroupWorld()
    result = world.come("", version=0)
    assert result.member_id
    assert list(world.consumer_group().members) == [result.member_id]


def test_a_heartbeat_that_says_nothing_new_is_not_written_down() -> None:
    """B-E3"""
    world = GroupWorld()
    world.come("m")
    log = world.partition().log
    end = log.log_end_offset
    world.beat("m", 2, {"t": ALL})
    world.beat("m", 2)
    assert log.log_end_offset == end


def test_a_member_waits_for_what_another_one_gives_up() -> None:
    """B-E3: no partition has two owners."""
    world = GroupWorld()
    world.come("a")
    assert world.given(world.come("b")) == {}
    told = world.beat("a", 2, {"t": ALL})
    assert (told.member_epoch, world.given(told)) == (2, {"t": [0, 1]})
    assert world.given(world.beat("b", 3, {})) is None
    assert world.beat("a", 2, {"t": [0, 1]}).member_epoch == 3
    assert world.given(world.beat("b", 3, {})) == {"t": [2, 3]}
    assert world.consumer_group().state_name == "Stable"


def test_who_gives_up_nothing_is_taken_out_in_time() -> None:
    """B-E3: the rebalance time-out."""
    world = GroupWorld()
    world.come("a", rebalance_timeout_ms=2000)
    world.come("b")
    world.beat("a", 2, {"t": ALL})
    world.purgatory.advance(1000)
    assert world.beat("a", 2, {"t": ALL}).error == NONE
    world.purgatory.advance(1001)
    assert world.beat("a", 2, {"t": ALL}).error == UNKNOWN_MEMBER_ID
    assert world.given(world.beat("b", 3, {})) == {"t": ALL}


def test_who_gives_up_in_time_stays() -> None:
    """B-E3"""
    world = GroupWorld()
    world.come("a", rebalance_timeout_ms=2000)
    world.come("b")
    world.beat("a", 2, {"t": ALL})
    world.beat("a", 2, {"t": [0, 1]})
    world.purgatory.advance(10_000)
    assert world.beat("a", 3).error == NONE


def test_a_silent_member_is_taken_out() -> None:
    """B-E3: the session, which each heartbeat begins anew."""
    world = GroupWorld(group_consumer_session_timeout_ms=10_000)
    world.come("a")
    for _ in range(3):
        world.purgatory.advance(9000)
        assert world.beat("a", 2).error == NONE
    # One for the member, one that looks for old offsets.
    assert len(world.purgatory.pending) == 2
    world.purgatory.advance(10_001)
    assert world.beat("a", 2).error == UNKNOWN_MEMBER_ID
    assert world.consumer_group().is_empty


def test_epochs_that_do_not_fit_are_fenced() -> None:
    """B-E3: the answer with the newest may have been lost."""
    world = GroupWorld()
    world.come("a")
    world.come("b")
    world.beat("a", 2, {"t": ALL})
    world.beat("a", 2, {"t": [0, 1]})
    assert world.beat("a", 2, {"t": [0, 1]}).member_epoch == 3
    late: list[tuple[int, dict[str, list[int]] | None]] = [(2, {"t": ALL}), (2, None), (1, {})]
    for epoch, owned in [*late, (9, {})]:
        result = world.beat("a", epoch, owned)
        assert result.error == FENCED_MEMBER_EPOCH
        assert result.message
    assert world.given(world.come("a")) == {"t": [0, 1]}


def test_what_is_refused_leaves_no_group() -> None:
    """B-E3"""
    world = GroupWorld(group_consumer_max_size=1)
    assert world.beat("m", 1).error == GROUP_ID_NOT_FOUND
    assert world.beat("m", -1).error == GROUP_ID_NOT_FOUND
    assert world.come("m", server_assignor="mine").error == UNSUPPORTED_ASSIGNOR
    bad = world.come("m", topics=None, topic_regex="(")
    assert bad.error == INVALID_REGULAR_EXPRESSION
    assert world.manager.item("g", world.node()) is None
    world.come("m")
    assert world.come("n").error == GROUP_MAX_SIZE_REACHED
    assert world.come("m").error == NONE


def test_another_node_and_a_closing_one_say_so() -> None:
    """B-E1, B-E3"""
    world = GroupWorld()
    world.come("m")
    assert world.beat("m", 2, node=1 - world.node()).error == NOT_COORDINATOR
    world.coordinator.close()
    assert world.beat("m", 2).error == COORDINATOR_NOT_AVAILABLE
    world.purgatory.advance(100_000)


def test_instances_keep_their_place() -> None:
    """B-E3: static members."""
    world = GroupWorld()
    world.come("a", instance_id="i")
    assert world.come("x", instance_id="i").error == UNRELEASED_INSTANCE_ID
    assert world.beat("x", 2, instance_id="i").error == FENCED_INSTANCE_ID
    assert world.beat("a", 2, instance_id="j").error == UNKNOWN_MEMBER_ID
    assert world.beat("x", -2, instance_id="i").error == FENCED_INSTANCE_ID
    epoch = world.consumer_group().epoch
    assert world.beat("a", -2, instance_id="i").member_epoch == -2
    assert world.beat("a", 2, instance_id="i").error == FENCED_MEMBER_EPOCH
    result = world.come("b", instance_id="i")
    assert (result.member_epoch, world.given(result)) == (2, {"t": ALL})
    assert world.consumer_group().epoch == epoch
    assert list(world.consumer_group().members) == ["b"]
    assert world.beat("b", -1, instance_id="i").error == NONE
    assert world.consumer_group().static_members == {}


def test_the_instance_that_a_member_was_before_is_free_again() -> None:
    """B-E3: whoever comes as it, after the member has left."""
    world = GroupWorld()
    world.come("a", instance_id="i")
    world.come("a", instance_id="j")
    assert world.consumer_group().static_members == {"j": "a"}
    world.beat("a", -1, instance_id="j")
    assert world.come("b", instance_id="i").error == NONE


def test_an_instance_that_does_not_come_back_is_taken_out() -> None:
    """B-E3"""
    world = GroupWorld(group_consumer_session_timeout_ms=10_000)
    world.come("a", instance_id="i")
    world.come("b")
    world.beat("a", -2, instance_id="i")
    world.purgatory.advance(9000)
    world.beat("b", 3)
    world.purgatory.advance(2000)
    assert list(world.consumer_group().members) == ["b"]


def test_topics_that_match_are_read_also_those_that_come_later() -> None:
    """B-E3: subscribedTopicRegex, and only what the member may know of."""
    world = GroupWorld()
    result = world.come("m", topics=None, topic_regex="t.*")
    assert world.given(result) == {"t": ALL}
    world.topics.create("t2", 1)
    result = world.beat("m", result.member_epoch, {"t": ALL})
    assert world.given(result) == {"t": ALL, "t2": [0]}
    hidden: dict[str, Any] = {"allows_topic": lambda name: name != "t"}
    epoch = world.beat("m", result.member_epoch, topic_regex="u|t", **hidden).member_epoch
    told = world.beat("m", epoch, {}, **hidden)
    assert world.given(told) == {"u": ALL}
    assert list(world.consumer_group().resolved) == ["u|t"]
    assert world.consumer_group().is_subscribed_to("u")
    world.beat("m", -1)
    assert world.consumer_group().resolved == {}


def test_a_match_that_could_not_be_written_down_is_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-E3: the next heartbeat looks once more, not the next refresh."""
    world = GroupWorld()
    result = world.come("m", topics=None, topic_regex="t.*")
    world.topics.create("t2", 1)
    with monkeypatch.context() as patched:
        patched.setattr(world.manager, "append", lambda *_: COORDINATOR_NOT_AVAILABLE)
        refused = world.beat("m", result.member_epoch, {"t": ALL})
        assert refused.error == COORDINATOR_NOT_AVAILABLE
    result = world.beat("m", result.member_epoch, {"t": ALL})
    assert world.given(result) == {"t": ALL, "t2": [0]}


def test_a_topic_that_comes_while_matches_are_looked_for_is_not_missed() -> None:
    """B-E3"""
    world = GroupWorld()

    def creates(name: str) -> bool:
        if world.topics.get("t2") is None:
            world.topics.create("t2", 1)
        return True

    result = world.come("m", topics=None, topic_regex="t.*", allows_topic=creates)
    assert world.given(result) == {"t": ALL}
    result = world.beat("m", result.member_epoch, {"t": ALL})
    assert world.given(result) == {"t": ALL, "t2": [0]}


def test_a_topic_that_comes_or_goes_is_shared_anew() -> None:
    """B-E3: the metadata hash (KIP-1101)."""
    world = GroupWorld()
    assert world.given(world.come("m", "t", "later")) == {"t": ALL}
    world.topics.create("later", 2)
    result = world.beat("m", 2, {"t": ALL})
    assert world.given(result) == {"later": [0, 1], "t": ALL}
    world.topics.delete("later")
    result = world.beat("m", 3, {"t": ALL})
    assert (result.member_epoch, world.given(result)) == (4, {"t": ALL})


def test_partitions_are_not_shared_anew_too_often() -> None:
    """KIP-1263: group.consumer.assignment.interval.ms."""
    world = GroupWorld(group_consumer_assignment_interval_ms=5000)
    world.come("a")
    assert world.come("b").member_epoch == 2
    assert world.consumer_group().state_name == "Assigning"
    world.purgatory.advance(5000)
    assert world.beat("b", 2, {}).member_epoch == 3


def test_members_have_a_say_how_partitions_are_shared() -> None:
    """B-E3: most of them decide."""
    world = GroupWorld()
    world.come("a", "t", "u", server_assignor="range")
    assert world.consumer_group().preferred_assignor() == "range"
    world.come("b", "t", "u")
    target = world.consumer_group().target_assignment
    assert [sorted(map(sorted, each.values())) for each in target.values()] == [
        [[0, 1], [0, 1]],
        [[2, 3], [2, 3]],
    ]


def test_the_next_coordinator_goes_on() -> None:
    """B-E1, B-E3: members, epochs and assignments; sessions begin anew."""
    world = GroupWorld(group_consumer_session_timeout_ms=10_000)
    world.come("a", instance_id="i", rebalance_timeout_ms=4000)
    world.come("b", topics=None, topic_regex="t|u", server_assignor="range")
    world.beat("a", 2, {"t": ALL}, instance_id="i")
    world.commit({("t", 0): 5}, "a", 2, knows_epochs=True)
    before = entries(world.consumer_group())
    owners = dict(world.consumer_group().owners)
    later = world.successor()
    group = later.consumer_group()
    assert entries(group) == before
    assert group.owners == owners
    assert later.fetched() == {("t", 0): 5}
    assert later.beat("a", 2, {"t": ALL}, instance_id="i").error == NONE
    later.purgatory.advance(4001)
    assert list(group.members) == ["b"]
    later.purgatory.advance(6000)
    assert group.is_empty


def test_a_group_that_is_written_anew_is_the_same() -> None:
    """B-E3"""
    world = GroupWorld()
    world.come("a")
    world.come("b", topics=None, topic_regex="t|u")
    group = world.consumer_group()
    before = entries(group)
    with group.lock:
        assert world.manager.append_all(group, group.live_entries()) == NONE
    assert entries(world.successor().consumer_group()) == before


def test_groups_without_members_change_their_kind() -> None:
    """B-E3: offsets stay; the online upgrade is refused."""
    world = GroupWorld()
    world.commit({("t", 0): 5})
    (classic,) = world.stable()
    refused = world.come("m")
    assert refused.error == GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in str(refused.message)
    world.leave(Leaving(classic))
    assert world.come("m").error == NONE
    assert world.fetched() == {("t", 0): 5}
    assert world.join().join().error == INCONSISTENT_GROUP_PROTOCOL
    assert world.heartbeat("m", 2) == UNKNOWN_MEMBER_ID
    world = world.successor()
    assert list(world.consumer_group().members) == ["m"]
    assert world.leave(Leaving("m"), Leaving("m2"), Leaving("", "i")) == (
        NONE,
        [NONE, UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID],
    )
    assert world.join("nobody").join().error == UNKNOWN_MEMBER_ID
    assert world.join().join().error == NONE
    later = world.successor()
    assert later.group().kind == "classic"
    assert later.fetched() == {("t", 0): 5}


def test_an_administrator_removes_members() -> None:
    """B-E3: LeaveGroup."""
    world = GroupWorld()
    world.come("a", instance_id="i")
    world.come("b", topics=None, topic_regex="u")
    assert world.leave(Leaving("x", "i"), Leaving("", "i"), Leaving("b")) == (
        NONE,
        [FENCED_INSTANCE_ID, NONE, NONE],
    )
    assert world.consumer_group().is_empty


@pytest.mark.parametrize("comes", [True, False])
def test_what_cannot_be_written_down_does_not_happen(comes: bool) -> None:
    """B-E3: too few replicas in sync, then enough again."""
    world = GroupWorld()
    world.come("a")
    before = entries(world.consumer_group())
    partition = world.partition()
    isr, partition.isr = partition.isr, []
    result = world.come("b") if comes else world.beat("a", -1)
    assert result.error == COORDINATOR_NOT_AVAILABLE
    partition.isr = isr
    assert entries(world.consumer_group()) == before
    assert (world.come("b") if comes else world.beat("a", -1)).error == NONE


def test_who_cannot_be_taken_out_is_taken_out_later() -> None:
    """B-E3"""
    world = GroupWorld(group_consumer_session_timeout_ms=10_000)
    world.come("a")
    partition = world.partition()
    isr, partition.isr = partition.isr, []
    world.purgatory.advance(10_001)
    assert list(world.consumer_group().members) == ["a"]
    partition.isr = isr
    world.purgatory.advance(1001)
    assert world.consumer_group().is_empty
