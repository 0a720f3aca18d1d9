"""ConsumerGroupAsker: a member of a group that the broker assigns, which notes what it is told."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from fastprod.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from fastprod.protocol import api_keys
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.consumer_group_describe import ConsumerGroupDescribeRequest
from fastprod.protocol.messages.group.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fastprod.protocol.messages.group.describe_groups import DescribeGroupsRequest
from fastprod.protocol.messages.group.list_groups import ListGroupsRequest
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.sasl_client import SaslClient

TIMEOUT_S = 30.0
Said = list[tuple[str, Any]]


class ConsumerGroupAsker:
    """Asks one broker about one group, and notes what it says; ids are noted by their meaning.

    Args:
        client: a connection to the coordinator.
        group: a group that nobody else uses.
        topics: topics that are there.

    Attributes:
        said: what was asked, and the answer without what differs from broker to broker.
        ids: of the topics.
    """

    def __init__(self, client: SaslClient, group: str, topics: Sequence[str]) -> None:
        self.client = client
        self.group = group
        self.topics = list(topics)
        self.said: Said = []
        self.ids = {name: self._id_of(name) for name in topics}
        self._texts = {name: f"topic {place}" for place, name in enumerate(topics)} | {
            group: "the group"
        }

    def _id_of(self, name: str) -> bytes:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (found,) = self.client.ask(api_keys.METADATA, 11, request).topics
        return bytes(found.topic_id)

    def _names(self, assignment: Any) -> Any:
        if assignment is None:
            return None
        by_id = {id: name for name, id in self.ids.items()}
        return sorted(
            (self._texts[by_id[bytes(each.topic_id)]], sorted(each.partitions))
            for each in assignment.topic_partitions
        )

    def _plain(self, text: str | None) -> str | None:
        """A text without names that are another each time."""
        for name, replacement in self._texts.items():
            text = text.replace(name, replacement) if text else text
        return text

    def note(self, what: str, *found: Any) -> None:
        self.said.append((what, found))

    def await_coordinator(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            request = FindCoordinatorRequest(coordinator_keys=[self.group])
            found = self.client.ask(api_keys.FIND_COORDINATOR, 4, request).coordinators[0]
            if found.error_code == NONE:
                answer = self.client.ask(
                    api_keys.CONSUMER_GROUP_HEARTBEAT,
                    1,
                    ConsumerGroupHeartbeatRequest(
                        group_id=self.group, member_id="probe", member_epoch=1
                    ),
                )
                if answer.error_code not in (
                    COORDINATOR_LOAD_IN_PROGRESS,
                    COORDINATOR_NOT_AVAILABLE,
                    NOT_COORDINATOR,
                ):
                    return
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def beat(
        self,
        what: str,
        member: str,
        epoch: int,
        owned: dict[str, list[int]] | None = None,
        *,
        version: int = 1,
        topics: Sequence[str] | None = None,
        group: str | None = None,
        **more: Any,
    ) -> Any:
        """One heartbeat.

        Args:
            what: it is noted by this.
            member: its id.
            epoch: its epoch.
            owned: partitions that it says it has, by topic.
            version: of the request.
            topics: what it reads.
            group: its group.
            more: fields of the request.
        """
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group if group is None else group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.ids[name], partitions=indexes)
                for name, indexes in owned.items()
            ],
            **more,
        )
        answer = self.client.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, version, request)
        self.note(
            what,
            answer.error_code,
            self._plain(answer.error_message),
            answer.member_id == member if answer.member_id else answer.member_id,
            answer.member_epoch,
            self._names(answer.assignment),
        )
        return answer

    def join(self, what: str, member: str, *, timeout_ms: int = 60_000, **more: Any) -> Any:
        """A heartbeat of somebody who comes; by default it reads the first topic."""
        if "subscribed_topic_regex" not in more:
            more.setdefault("topics", self.topics[:1])
        return self.beat(what, member, 0, {}, rebalance_timeout_ms=timeout_ms, **more)

    def commit(
        self,
        what: str,
        member: str = "",
        epoch: int = -1,
        *,
        partition: int = 0,
        version: int = 9,
        instance: str | None = None,
        topic_id: bytes | None = None,
    ) -> None:
        place = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=5, committed_metadata=""
        )
        name = self.topics[0]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=instance,
            topics=[
                OffsetCommitRequestTopic(
                    name=name, topic_id=topic_id or self.ids[name], partitions=[place]
                )
            ],
        )
        answer = self.client.ask(api_keys.OFFSET_COMMIT, version, request)
        self.note(what, [each.error_code for topic in answer.topics for each in topic.partitions])

    def fetch(
        self,
        what: str,
        member: str | None = None,
        epoch: int = -1,
        *,
        version: int = 9,
        takes_all: bool = False,
        topic_id: bytes | None = None,
    ) -> None:
        name = self.topics[0]
        asked = OffsetFetchRequestTopics(
            name=name, topic_id=topic_id or self.ids[name], partition_indexes=[0, 1]
        )
        group = OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=member,
            member_epoch=epoch,
            topics=None if takes_all else [asked],
        )
        (answer,) = self.client.ask(
            api_keys.OFFSET_FETCH, version, OffsetFetchRequest(groups=[group])
        ).groups
        self.note(
            what,
            answer.error_code,
            [
                (each.partition_index, each.committed_offset, each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            ],
        )

    def describe(self, what: str, group: str | None = None) -> None:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group if group is None else group])
        (found,) = self.client.ask(api_keys.CONSUMER_GROUP_DESCRIBE, 1, request).groups
        self.note(
            what,
            found.error_code,
            self._plain(found.error_message),
            found.group_state,
            found.group_epoch,
            found.assignment_epoch,
            found.assignor_name,
            sorted(
                (
                    each.member_id,
                    each.instance_id or "",
                    each.rack_id or "",
                    each.member_epoch,
                    each.client_id,
                    each.client_host,
                    sorted(str(self._plain(name)) for name in each.subscribed_topic_names),
                    self._plain(each.subscribed_topic_regex),
                    self._names(each.assignment),
                    self._names(each.target_assignment),
                    each.member_type,
                )
                for each in found.members
            ),
        )

    def describe_classic(self, what: str) -> None:
        request = DescribeGroupsRequest(groups=[self.group])
        (found,) = self.client.ask(api_keys.DESCRIBE_GROUPS, 6, request).groups
        self.note(what, found.error_code, self._plain(found.error_message), found.group_state)

    def list(self, what: str, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = self.client.ask(api_keys.LIST_GROUPS, 5, request)
        mine = [each for each in answer.groups if each.group_id == self.group]
        self.note(
            what,
            answer.error_code,
            [(each.protocol_type, each.group_state, each.group_type) for each in mine],
        )


def fresh_group(name: str) -> str:
    """A name that nobody has used."""
    return f"{name} {uuid.uuid4()}"
