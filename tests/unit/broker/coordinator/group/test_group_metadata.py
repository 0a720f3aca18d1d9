"""A group's members, protocols, states and offsets (B-E2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.coordinator.group.group_metadata import (
    GroupMetadata,
    GroupState,
    subscription,
)
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata
from fastprod.broker.coordinator.group.member_metadata import (
    JoinGroupResult,
    MemberMetadata,
    Protocol,
    SyncGroupResult,
)
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    FENCED_INSTANCE_ID,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from support.groups.group_world import subscribed

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def partition() -> Partition:
    log = Log(None, "__consumer_offsets", 0, LogConfig(), FakeClock())
    return Partition("__consumer_offsets", 0, log, [0])


@pytest.fixture
def group(partition: Partition) -> GroupMetadata:
    return GroupMetadata("g", partition, NOW_MS)


def member(
    name: str, *protocols: str, instance: str | None = None, topic: str = "t"
) -> MemberMetadata:
    said: Sequence[Protocol] = [(each, subscribed(topic)) for each in protocols or ("range",)]
    return MemberMetadata(name, instance, "c", "/h", 60_000, 10_000, "consumer", said)


def test_states_follow_each_other_as_in_kafka(group: GroupMetadata) -> None:
    states = GroupState
    for state in (
        states.PREPARING_REBALANCE,
        states.COMPLETING_REBALANCE,
        states.STABLE,
        states.PREPARING_REBALANCE,
        states.EMPTY,
    ):
        group.transition_to(state, NOW_MS + 1)
        assert group.is_in(state)
    assert group.state_timestamp_ms == NOW_MS + 1
    with pytest.raises(ValueError, match="Stable cannot follow Empty"):
        group.transition_to(states.STABLE, NOW_MS)
    assert group.can_rebalance
    group.transition_to(states.DEAD, NOW_MS)
    assert not group.can_rebalance


def test_the_first_member_leads_and_the_next_one_after_it(group: GroupMetadata) -> None:
    for name in ("a", "b", "c"):
        group.add(member(name))
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b")
    group.remove("c")
    assert group.leader_id is None
    assert group.remove("c") is None


def test_only_who_has_joined_is_elected(group: GroupMetadata) -> None:
    group.add(member("a"))
    group.add(member("b"), lambda result: None)
    assert group.elect_joined_leader()
    assert group.leader_id == "b"
    group.answer_join(group.members["b"], JoinGroupResult(NONE, "b"))
    assert not group.elect_joined_leader()


def test_most_members_decide_on_the_protocol_that_all_can_follow(group: GroupMetadata) -> None:
    group.add(member("a", "range", "sticky"))
    assert group.select_protocol() == "range"
    group.add(member("b", "sticky", "range"))
    group.add(member("c", "sticky", "range", "other"))
    assert group.select_protocol() == "sticky"
    group.remove("c")
    group.add(member("d", "range"))
    assert group.select_protocol() == "range"


def test_a_protocol_has_to_suit_all_members(group: GroupMetadata) -> None:
    assert group.supports_protocols("consumer", [("any", b"")])
    assert not group.supports_protocols("", [("any", b"")])
    assert not group.supports_protocols("consumer", [])
    group.add(member("a", "range", "sticky"))
    group.add(member("b", "range"))
    group.transition_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    assert group.supports_protocols("consumer", [("sticky", b""), ("range", b"")])
    assert not group.supports_protocols("consumer", [("sticky", b"")])
    assert not group.supports_protocols("connect", [("range", b"")])


def test_a_generation_begins_with_members_or_without(group: GroupMetadata) -> None:
    group.add(member("a"))
    group.transition_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    group.begin_generation(NOW_MS)
    assert group.is_in(GroupState.COMPLETING_REBALANCE)
    assert (group.generation_id, group.protocol_name) == (1, "range")
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    group.remove("a")
    group.transition_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    group.begin_generation(NOW_MS)
    assert group.is_in(GroupState.EMPTY)
    assert (group.generation_id, group.protocol_name) == (2, None)
    assert not group.is_subscribed_to("t")


def test_who_joins_again_is_answered_once(group: GroupMetadata) -> None:
    """Its first request is refused: each request is answered."""
    first: list[JoinGroupResult] = []
    second: list[JoinGroupResult] = []
    with group.lock:
        group.add(member("a"), first.append)
        found = group.members["a"]
        group.update(found, [("range", b"new")], 1, 2, second.append)
        assert group.has_all_members_joined
        group.answer_join(found, JoinGroupResult(NONE, "a", 1))
        assert not group.has_all_members_joined
    assert [each.error for each in first] == [REBALANCE_IN_PROGRESS]
    assert [each.error for each in second] == [NONE]
    assert (found.rebalance_timeout_ms, found.session_timeout_ms) == (1, 2)


def test_a_static_member_is_replaced_and_the_old_one_fenced(group: GroupMetadata) -> None:
    """KIP-345."""
    joins: list[JoinGroupResult] = []
    syncs: list[SyncGroupResult] = []
    with group.lock:
        group.add(member("a", instance="i"), joins.append)
        group.await_sync(group.members["a"], syncs.append)
        group.add(member("b"))
        new = group.replace_static_member("a", "a2")
    assert [each.error for each in joins] == [FENCED_INSTANCE_ID]
    assert [each.error for each in syncs] == [FENCED_INSTANCE_ID]
    assert group.members.keys() == {"b", "a2"}
    assert group.members["a2"] is new
    assert (group.leader_id, group.static_member_id("i")) == ("a2", "a2")
    assert group.refusal_of_member("a", "i") == FENCED_INSTANCE_ID
    assert group.refusal_of_member("a2", "i") == NONE
    assert group.refusal_of_member("a2", "j") == UNKNOWN_MEMBER_ID
    assert group.refusal_of_member("x", None) == UNKNOWN_MEMBER_ID


def test_the_log_has_all_of_a_generation(group: GroupMetadata, partition: Partition) -> None:
    group.add(member("a", instance="i"))
    group.add(member("b"))
    group.transition_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    group.begin_generation(NOW_MS)
    group.members["b"].assignment = b"given"
    group.transition_to(GroupState.STABLE, NOW_MS + 5)
    offsets = GroupOffsets()
    offsets.commit({("t", 0): OffsetAndMetadata(1, -1, "", NOW_MS)})
    loaded = GroupMetadata.load("g", partition, NOW_MS + 9, group.stored(), offsets)
    assert loaded.is_in(GroupState.STABLE)
    assert loaded.stored() == group.stored()
    assert loaded.state_timestamp_ms == NOW_MS + 5
    assert loaded.static_member_id("i") == "a"
    assert loaded.members["b"].assignment == b"given"
    assert loaded.supports_protocols("consumer", [("range", b"")])
    assert loaded.is_subscribed_to("t")
    assert loaded.offsets is offsets


def test_a_group_of_offsets_alone_is_empty(partition: Partition) -> None:
    loaded = GroupMetadata.load("g", partition, NOW_MS, None, GroupOffsets())
    assert loaded.is_in(GroupState.EMPTY)
    assert (loaded.protocol_type, loaded.generation_id, loaded.stored_entry) == (None, 0, None)


def test_ids_of_members_are_their_clients_and_never_the_same(group: GroupMetadata) -> None:
    one, other = (group.new_member_id("client", None) for _ in range(2))
    assert one.startswith("client-")
    assert len(one) == len("client-") + 36
    assert one != other
    assert group.new_member_id("client", "instance").startswith("instance-")


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscribed("t", "u"), {"t", "u"}),
        (subscribed(), set()),
        (b"", None),
        (b"\0\0\0\0\0\1", None),
        (b"\0\0\0\0\0\1\0\5t", None),
        (b"\0\0\0\0\0\1\0\1\xff", None),
    ],
)
def test_topics_are_read_out_of_what_consumers_say(
    metadata: bytes, topics: set[str] | None
) -> None:
    assert subscription(metadata) == topics


def test_offsets_are_kept_by_the_rules_of_kip_211(group: GroupMetadata) -> None:
    """Nobody in it: from its end on; a stable group: what it does not read; no group at all: from
    the commit on.
    """
    old = OffsetAndMetadata(1, -1, "", NOW_MS - DAY_MS)
    group.offsets.commit({("t", 0): old, ("u", 0): old})
    assert group.expired_offsets(NOW_MS - 1, DAY_MS) == []
    assert group.expired_offsets(NOW_MS, DAY_MS) == [("t", 0), ("u", 0)]
    group.add(member("a"))
    group.transition_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    assert group.expired_offsets(NOW_MS, DAY_MS) == []
    group.begin_generation(NOW_MS)
    group.transition_to(GroupState.STABLE, NOW_MS)
    assert group.expired_offsets(NOW_MS, DAY_MS) == [("u", 0)]
    group.remove("a")
    group.transition_to(GroupState.PREPARING_REBALANCE, NOW_MS)
    group.begin_generation(NOW_MS)
    assert group.expired_offsets(NOW_MS, DAY_MS) == []
    assert group.expired_offsets(NOW_MS + DAY_MS, DAY_MS) == [("t", 0), ("u", 0)]
    group.offsets.commit({("t", 0): old._replace(expire_timestamp_ms=NOW_MS + 7)})
    assert group.expired_offsets(NOW_MS + 7, DAY_MS) == [("t", 0)]
    # An open transaction is about it.
    group.offsets.add_pending(1, {("t", 0): old})
    assert group.expired_offsets(NOW_MS + 7, DAY_MS) == []
