"""How long members are waited for (B-E3)."""

from __future__ import annotations

from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from fastprod.broker.coordinator.group.consumer.member_timers import MemberTimers
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from support.groups.group_world import GroupWorld

Over = list[tuple[str, int | None]]


class Timers:
    """Timers of one group, and whose time is over."""

    def __init__(self) -> None:
        self.world = GroupWorld()
        self.over: Over = []
        self.is_done = True
        self.timers = MemberTimers(
            BrokerConfig.make({"group_consumer_session_timeout_ms": 1000}),
            self.world.clock,
            self.world.purgatory,
            self._is_over,
        )
        partition = self.world.partition()
        self.group = ConsumerGroup("g", partition, self.world.topics, GroupOffsets())

    def _is_over(self, group: ConsumerGroup, member_id: str, epoch: int | None) -> bool:
        self.over.append((member_id, epoch))
        return self.is_done


def member(
    epoch: int, state: MemberState = MemberState.UNREVOKED_PARTITIONS
) -> ConsumerGroupMember:
    return ConsumerGroupMember("m", epoch, 0, state, rebalance_timeout_ms=500)


def test_a_session_ends_when_nothing_is_heard() -> None:
    """B-E3: each heartbeat moves its end, and costs no timer."""
    made = Timers()
    for _ in range(3):
        made.timers.schedule_session(made.group, "m")
        made.world.purgatory.advance(999)
    assert made.over == []
    assert len(made.world.purgatory.pending) == 1
    made.world.purgatory.advance(1)
    assert made.over == [("m", None)]
    assert made.group.sessions == {}


def test_what_could_not_be_done_is_tried_again() -> None:
    """B-E3"""
    made = Timers()
    made.is_done = False
    made.timers.schedule_session(made.group, "m")
    made.timers.schedule_rebalance(made.group, member(3))
    made.world.purgatory.advance(1000)
    assert made.over == [("m", 3), ("m", None)]
    made.is_done = True
    made.world.purgatory.advance(1000)
    assert made.over == [("m", 3), ("m", None)] * 2
    assert made.world.purgatory.pending == []


def test_time_to_give_up_begins_with_each_step() -> None:
    """B-E3: and ends when all is given up."""
    made = Timers()
    made.timers.schedule_rebalance(made.group, member(3))
    made.world.purgatory.advance(400)
    made.timers.schedule_rebalance(made.group, member(4))
    made.world.purgatory.advance(499)
    assert made.over == []
    made.timers.schedule_rebalance(made.group, member(5, MemberState.STABLE))
    made.world.purgatory.advance(1000)
    assert made.over == []
    assert made.world.purgatory.pending == []


def test_nobody_is_waited_for_in_a_group_that_is_gone() -> None:
    """B-E3"""
    made = Timers()
    made.timers.schedule_session(made.group, "m")
    made.timers.schedule_session(made.group, "n")
    made.timers.schedule_rebalance(made.group, member(3))
    made.timers.forget(made.group, "n")
    assert len(made.world.purgatory.pending) == 2
    made.timers.forget_all(made.group)
    assert made.world.purgatory.pending == []
    made.world.purgatory.advance(5000)
    assert made.over == []
