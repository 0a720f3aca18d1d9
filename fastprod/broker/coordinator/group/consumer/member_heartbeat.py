"""MemberHeartbeat: what a member says of itself, and what it is told.

Source: ConsumerGroupHeartbeat (KIP-848); contract B-E3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    EpochAssignment,
)
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.error_codes import INVALID_REQUEST, NONE

_FIRST_OWN_ID_VERSION = 1


class MemberHeartbeat(NamedTuple):
    """What a member says. None: as it said the last time.

    Attributes:
        version: of the request.
        group_id: its group.
        member_id: "", in version 0: it has none yet.
        member_epoch: 0: it joins; -1: it leaves; -2: its instance will be back.
        client_id: what its client calls itself.
        client_host: the address that it comes from, as Kafka writes it.
        allows_topic: whether it may know of a topic.
        instance_id: of a static member.
        rack_id: where it is.
        rebalance_timeout_ms: so long it may take to give partitions up; -1: as before.
        topic_names: what it reads.
        topic_regex: and what matches.
        server_assignor: how it likes partitions to be assigned.
        owned: partitions that it has, by topic id.
    """

    version: int
    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    allows_topic: Callable[[str], bool]
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: Sequence[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Sequence[tuple[bytes, Sequence[int]]] | None = None

    @property
    def joins(self) -> bool:
        """Whether it comes, or comes again."""
        return self.member_epoch == 0

    @property
    def leaves(self) -> bool:
        """Whether it goes."""
        return self.member_epoch < 0

    @property
    def says_all(self) -> bool:
        """Whether nothing is left as it was: it does not know what it was told."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None

    def check(self) -> None:
        """See whether it makes sense.

        Raises:
            CoordinatorError: it does not.
        """
        needs_id = (
            self.version >= _FIRST_OWN_ID_VERSION
            or self.member_epoch > 0
            or self.member_epoch == LEAVE_EPOCH
        )
        if needs_id and not self.member_id:
            raise _invalid("MemberId can't be empty.")
        for name, value in (
            ("GroupId", self.group_id),
            ("InstanceId", self.instance_id),
            ("RackId", self.rack_id),
        ):
            if value is not None and not value.strip():
                raise _invalid(f"{name} can't be empty.")
        if self.joins:
            self._check_joining()
        elif self.member_epoch == STATIC_LEAVE_EPOCH:
            if self.instance_id is None:
                raise _invalid("InstanceId can't be null.")
        elif self.member_epoch < STATIC_LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")

    def _check_joining(self) -> None:
        if self.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if self.owned is None or self.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if self.topic_names is None and self.topic_regex is None:
            raise _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )

    def heard_of(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """The member after this."""
        names, regex = self.topic_names, self.topic_regex
        timeout_ms = self.rebalance_timeout_ms
        return member._replace(
            instance_id=self.instance_id or member.instance_id,
            rack_id=self.rack_id or member.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topic_names=member.topic_names if names is None else frozenset(names),
            topic_regex=member.topic_regex if regex is None else regex,
            server_assignor=self.server_assignor or member.server_assignor,
        )


class HeartbeatResult(NamedTuple):
    """What a member is told.

    Attributes:
        error: NONE or Kafka's code.
        message: why.
        member_id: its id.
        member_epoch: its epoch from now on.
        heartbeat_interval_ms: when it is to come again.
        assignment: what it may read; None: as it was told before.
    """

    error: int = NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: EpochAssignment | None = None


def _invalid(text: str) -> CoordinatorError:
    return CoordinatorError(INVALID_REQUEST, text)
