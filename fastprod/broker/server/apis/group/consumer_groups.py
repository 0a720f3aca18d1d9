"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups that the broker assigns (B-E3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastprod.broker.cluster.topics import Topics
from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from fastprod.broker.coordinator.group.consumer.consumer_group_member import (
    NOTHING,
    Assignment,
    ConsumerGroupMember,
    EpochAssignment,
    plain,
)
from fastprod.broker.coordinator.group.consumer.member_heartbeat import (
    HeartbeatResult,
    MemberHeartbeat,
)
from fastprod.broker.coordinator.group.consumer.target_assignment_builder import DEFAULT_ASSIGNOR
from fastprod.broker.coordinator.group.group_coordinator import GroupCoordinator
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.group.membership import GroupApi, may_read_group
from fastprod.error_codes import GROUP_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED
from fastprod.protocol.messages.group.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedMember,
    NamedTopicPartitions,
)
from fastprod.protocol.messages.group.consumer_group_heartbeat import (
    Assignment as ToldAssignment,
)
from fastprod.protocol.messages.group.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_CONSUMER_MEMBER: Final = 1
_OPERATIONS: Final = (Operation.READ, Operation.DELETE, Operation.DESCRIBE)
_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


class ConsumerGroupHeartbeatApi(GroupApi):
    """Handles ConsumerGroupHeartbeat. Any thread."""

    def handle(self, call: Call[ConsumerGroupHeartbeatRequest]) -> None:
        """Tell a member its epoch, and what it is to read."""
        message = call.message
        if not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        names = message.subscribed_topic_names
        if not all(call.allows_topic(Operation.DESCRIBE, name) for name in set(names or ())):
            self.refuse(call, TOPIC_AUTHORIZATION_FAILED, None)
            return
        owned = message.topic_partitions
        beat = MemberHeartbeat(
            call.version,
            message.group_id,
            message.member_id,
            message.member_epoch,
            call.request.header.client_id or "",
            f"/{call.request.connection.client_address}",
            lambda name: call.allows_topic(Operation.DESCRIBE, name),
            message.instance_id,
            message.rack_id,
            message.rebalance_timeout_ms,
            names,
            message.subscribed_topic_regex,
            message.server_assignor,
            None if owned is None else [(bytes(each.topic_id), each.partitions) for each in owned],
        )
        self._answer(call, self._coordinator.consumer_group_heartbeat(beat, call.node_id))

    def refuse(
        self, call: Call[ConsumerGroupHeartbeatRequest], code: int, text: str | None
    ) -> None:
        """Answer with `code`."""
        self._answer(call, HeartbeatResult(code, text))

    def _answer(self, call: Call[ConsumerGroupHeartbeatRequest], result: HeartbeatResult) -> None:
        call.answer(
            ConsumerGroupHeartbeatResponse(
                error_code=result.error,
                error_message=result.message,
                member_id=result.member_id,
                member_epoch=result.member_epoch,
                heartbeat_interval_ms=result.heartbeat_interval_ms,
                assignment=None if result.assignment is None else _told(result.assignment),
            )
        )


def _told(assigned: EpochAssignment) -> ToldAssignment:
    return ToldAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
            for topic_id, epochs in assigned.items()
        ]
    )


class ConsumerGroupDescribeApi:
    """Handles ConsumerGroupDescribe. Any thread.

    Args:
        coordinator: of all groups.
        topics: they are told by name.
    """

    def __init__(self, coordinator: GroupCoordinator, topics: Topics) -> None:
        self._coordinator = coordinator
        self._topics = topics

    def handle(self, call: Call[ConsumerGroupDescribeRequest]) -> None:
        """Answer for each group."""
        # Each once: otherwise a small request could have a huge answer.
        names = list(dict.fromkeys(call.message.group_ids))
        groups = [self._describe(call, name) for name in names]
        call.answer(ConsumerGroupDescribeResponse(groups=groups))

    def refuse(self, call: Call[ConsumerGroupDescribeRequest], code: int, text: str | None) -> None:
        """Answer every group with `code`."""
        names = dict.fromkeys(call.message.group_ids)
        groups = [_refused(name, code, text) for name in names]
        call.answer(ConsumerGroupDescribeResponse(groups=groups))

    def _describe(
        self, call: Call[ConsumerGroupDescribeRequest], group_id: str
    ) -> DescribedConsumerGroup:
        if not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _refused(group_id, GROUP_AUTHORIZATION_FAILED, None)
        try:
            group = self._coordinator.consumer_group(group_id, call.node_id)
        except CoordinatorError as error:
            return _refused(group_id, error.code, error.text)
        with group.lock:
            described = self._told(group)
        told = {
            each.topic_name
            for member in described.members
            for assignment in (member.assignment, member.target_assignment)
            for each in assignment.topic_partitions
        }
        if not all(call.allows_topic(Operation.DESCRIBE, name) for name in told):
            return _refused(group_id, TOPIC_AUTHORIZATION_FAILED, _HIDDEN)
        if call.message.include_authorized_operations:
            described.authorized_operations = call.operations(
                _OPERATIONS, ResourceType.GROUP, group_id
            )
        return described

    def _told(self, group: ConsumerGroup) -> DescribedConsumerGroup:
        """The group as it is; its lock is held."""
        return DescribedConsumerGroup(
            error_code=NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.preferred_assignor() or DEFAULT_ASSIGNOR,
            members=[
                self._told_member(each, group.target_assignment.get(each.member_id, NOTHING))
                for each in group.members.values()
            ],
        )

    def _told_member(self, member: ConsumerGroupMember, target: Assignment) -> DescribedMember:
        has: dict[bytes, frozenset[int]] = {}
        for each in (plain(member.assigned), plain(member.pending_revocation)):
            for topic_id, partitions in each.items():
                has[topic_id] = has.get(topic_id, frozenset()) | partitions
        return DescribedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            assignment=self._named(has),
            target_assignment=self._named(target),
            member_type=_CONSUMER_MEMBER,
        )

    def _named(self, assignment: Mapping[bytes, Any]) -> DescribedAssignment:
        found = []
        for topic_id, partitions in assignment.items():
            topic = self._topics.by_id(topic_id)
            if topic is not None:
                found.append(
                    NamedTopicPartitions(
                        topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions)
                    )
                )
        return DescribedAssignment(topic_partitions=found)


def _refused(group_id: str, code: int, text: str | None) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(error_code=code, error_message=text, group_id=group_id)
