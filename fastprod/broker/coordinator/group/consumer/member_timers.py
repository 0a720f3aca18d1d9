"""MemberTimers: how long members of groups that the broker assigns are waited for.

Source: GroupMetadataManager of Apache Kafka (scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout); contract B-E3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.delayed_call import DelayedCall
from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup, Session
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory

_NS_PER_MS: Final = 1_000_000
# After a member could not be taken out.
_AGAIN_MS: Final = 1_000

IsOver = Callable[[ConsumerGroup, str, int | None], bool]
"""Takes a member out whose time is over, the group's lock held: group, member, the epoch that it
had to leave or None. False: it could not be written down."""


class MemberTimers:
    """Sessions of members, and time to give partitions up. Any thread; the group's lock is held.

    A heartbeat only moves the member's deadline: thousands of them cost no timer.

    Args:
        config: how long sessions are.
        clock: what deadlines are measured by.
        purgatory: holds the deadlines; of the same clock.
        is_over: called when one has passed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        purgatory: DelayedOperationPurgatory,
        is_over: IsOver,
    ) -> None:
        self._session_ms = config.group_consumer_session_timeout_ms
        self._clock = clock
        self._purgatory = purgatory
        self._is_over = is_over

    def schedule_session(self, group: ConsumerGroup, member_id: str) -> None:
        """Something was heard of a member: its session begins anew."""
        deadline_ns = self._clock.monotonic_ns() + self._session_ms * _NS_PER_MS
        session = group.sessions.get(member_id)
        if session is not None:
            session.deadline_ns = deadline_ns
            return
        session = group.sessions[member_id] = Session(deadline_ns)
        self._park_session(group, member_id, session, self._session_ms)

    def schedule_rebalance(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Wait for a member that has to give partitions up; for others, no longer."""
        self._withdraw(group.rebalances.pop(member.member_id, None))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            time = group.rebalances[member.member_id] = Session(0)
            self._park_rebalance(group, member, time, member.rebalance_timeout_ms)

    def forget(self, group: ConsumerGroup, member_id: str) -> None:
        """Wait no longer for a member."""
        self._withdraw(group.sessions.pop(member_id, None))
        self._withdraw(group.rebalances.pop(member_id, None))

    def forget_all(self, group: ConsumerGroup) -> None:
        """Wait for no member of a group."""
        for member_id in [*group.sessions, *group.rebalances]:
            self.forget(group, member_id)

    def _park_session(
        self, group: ConsumerGroup, member_id: str, session: Session, delay_ms: float
    ) -> None:
        self._park(session, delay_ms, partial(self._session_fired, group, member_id, session))

    def _session_fired(self, group: ConsumerGroup, member_id: str, session: Session) -> None:
        """See whether something was heard of a member meanwhile; the lock is not held."""
        with group.lock:
            if group.is_dead or group.sessions.get(member_id) is not session:
                return
            left_ns = session.deadline_ns - self._clock.monotonic_ns()
            if left_ns > 0:
                self._park_session(group, member_id, session, left_ns / _NS_PER_MS)
            elif self._is_over(group, member_id, None):
                group.sessions.pop(member_id, None)
            else:
                self._park_session(group, member_id, session, _AGAIN_MS)

    def _park_rebalance(
        self, group: ConsumerGroup, member: ConsumerGroupMember, time: Session, delay_ms: float
    ) -> None:
        self._park(time, delay_ms, partial(self._rebalance_fired, group, member, time))

    def _rebalance_fired(
        self, group: ConsumerGroup, member: ConsumerGroupMember, time: Session
    ) -> None:
        """See whether a member has given up what it should; the lock is not held."""
        member_id = member.member_id
        with group.lock:
            if group.is_dead or group.rebalances.get(member_id) is not time:
                return
            if self._is_over(group, member_id, member.member_epoch):
                group.rebalances.pop(member_id, None)
            else:
                self._park_rebalance(group, member, time, _AGAIN_MS)

    def _park(self, session: Session, delay_ms: float, action: Callable[[], object]) -> None:
        operation = session.operation = DelayedCall(max(delay_ms, 0), action)
        self._purgatory.complete_or_watch(operation, (operation,))

    def _withdraw(self, session: Session | None) -> None:
        if session is not None and session.operation is not None:
            self._purgatory.withdraw(session.operation)
