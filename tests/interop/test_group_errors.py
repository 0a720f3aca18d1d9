"""What the embedded broker says to members and admins of groups is what Kafka says (B-E2)."""

from __future__ import annotations

import time
import uuid
from typing import Any

from conftest import TopicFactory
from fastprod.broker import Broker
from fastprod.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
)
from fastprod.protocol import api_keys
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.delete_groups import DeleteGroupsRequest
from fastprod.protocol.messages.group.describe_groups import DescribeGroupsRequest
from fastprod.protocol.messages.group.heartbeat import HeartbeatRequest
from fastprod.protocol.messages.group.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fastprod.protocol.messages.group.leave_group import LeaveGroupRequest, MemberIdentity
from fastprod.protocol.messages.group.list_groups import ListGroupsRequest
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fastprod.protocol.messages.group.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fastprod.protocol.messages.group.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kafka_cluster import KafkaCluster
from support.broker.sasl_client import SaslClient, body_of, payload
from support.groups.group_world import subscribed

TIMEOUT_S = 30.0
Said = list[tuple[str, Any]]


class Asker:
    """Asks one broker, and notes what it says; ids of members are noted by their order.

    Args:
        client: a connection to the coordinator.
        group: a group that nobody else uses.
        topic: a topic with two partitions.
    """

    def __init__(self, client: SaslClient, group: str, topic: str) -> None:
        self._client = client
        self.group = group
        self.topic = topic
        self.said: Said = []

    def note(self, what: str, *found: Any) -> None:
        self.said.append((what, found))

    def await_coordinator(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            request = FindCoordinatorRequest(coordinator_keys=[self.group])
            found = self._client.ask(api_keys.FIND_COORDINATOR, 4, request).coordinators[0]
            if found.error_code == NONE:
                probe = self.heartbeat("probe", 1)
                if probe not in (
                    COORDINATOR_LOAD_IN_PROGRESS,
                    COORDINATOR_NOT_AVAILABLE,
                    NOT_COORDINATOR,
                ):
                    return
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def join(
        self,
        what: str,
        member: str = "",
        *,
        version: int = 7,
        kind: str = "consumer",
        protocols: tuple[str, ...] = ("range",),
        instance: str | None = None,
        session_ms: int = 10_000,
        group: str | None = None,
        waits: bool = True,
    ) -> Any:
        request = JoinGroupRequest(
            group_id=self.group if group is None else group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=20_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[
                JoinGroupRequestProtocol(name=each, metadata=subscribed(self.topic))
                for each in protocols
            ],
        )
        self._client.say(payload(api_keys.JOIN_GROUP, version, request))
        if waits:
            return self.joined(what, version)
        return None

    def joined(self, what: str, version: int = 7) -> Any:
        """The answer to a JoinGroup."""
        answer = body_of(api_keys.JOIN_GROUP, version, self._client.hear())
        self.note(
            what,
            answer.error_code,
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            bool(answer.member_id),
            answer.leader == answer.member_id,
            answer.skip_assignment,
            len(answer.members),
        )
        return answer

    def sync(
        self, what: str, member: str, generation: int, waits: bool = True, **more: Any
    ) -> None:
        settings: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range", **more}
        given = [SyncGroupRequestAssignment(member_id=member, assignment=b"all")]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member,
            assignments=given,
            **settings,
        )
        self._client.say(payload(api_keys.SYNC_GROUP, 5, request))
        if waits:
            self.synced(what)

    def synced(self, what: str) -> None:
        """The answer to a SyncGroup."""
        answer = body_of(api_keys.SYNC_GROUP, 5, self._client.hear())
        self.note(
            what,
            answer.error_code,
            answer.protocol_type,
            answer.protocol_name,
            bytes(answer.assignment),
        )

    def heartbeat(self, member: str, generation: int, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        found: int = self._client.ask(api_keys.HEARTBEAT, 4, request).error_code
        return found

    def leave(self, what: str, *members: tuple[str, str | None], version: int = 5) -> None:
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=members[0][0],
            members=[
                MemberIdentity(member_id=member, group_instance_id=instance)
                for member, instance in members
            ],
        )
        answer = self._client.ask(api_keys.LEAVE_GROUP, version, request)
        self.note(what, answer.error_code, *(each.error_code for each in answer.members))

    def commit(
        self,
        what: str,
        member: str = "",
        generation: int = -1,
        *,
        version: int = 8,
        metadata: str = "",
        partition: int = 0,
        group: str | None = None,
        instance: str | None = None,
    ) -> None:
        place = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=5, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=self.group if group is None else group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[place])],
        )
        answer = self._client.ask(api_keys.OFFSET_COMMIT, version, request)
        self.note(what, answer.topics[0].partitions[0].error_code)

    def fetch(self, what: str, group: str | None = None) -> None:
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1, 9])]
        for asked in (topics, None):
            name = self.group if group is None else group
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=name, topics=asked)]
            )
            (found,) = self._client.ask(api_keys.OFFSET_FETCH, 8, request).groups
            self.note(
                what,
                found.error_code,
                *(
                    (
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for topic in found.topics
                    for each in topic.partitions
                ),
            )

    def describe(self, what: str, version: int = 5, group: str | None = None) -> None:
        request = DescribeGroupsRequest(groups=[self.group if group is None else group])
        (found,) = self._client.ask(api_keys.DESCRIBE_GROUPS, version, request).groups
        self.note(
            what,
            found.error_code,
            found.group_state,
            found.protocol_type,
            found.protocol_data,
            *(
                (
                    each.client_id,
                    each.client_host,
                    bytes(each.member_metadata),
                    bytes(each.member_assignment),
                )
                for each in found.members
            ),
        )

    def list(self, what: str, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> None:
        request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
        answer = self._client.ask(api_keys.LIST_GROUPS, 5, request)
        mine = [each for each in answer.groups if each.group_id == self.group]
        self.note(
            what,
            answer.error_code,
            *((each.protocol_type, each.group_state, each.group_type) for each in mine),
        )

    def delete(self, what: str) -> None:
        request = DeleteGroupsRequest(groups_names=[self.group])
        answer = self._client.ask(api_keys.DELETE_GROUPS, 2, request)
        self.note(what, answer.results[0].error_code)

    def delete_offsets(self, what: str, group: str | None = None) -> None:
        places = [OffsetDeleteRequestPartition(partition_index=each) for each in (0, 9)]
        request = OffsetDeleteRequest(
            group_id=self.group if group is None else group,
            topics=[OffsetDeleteRequestTopic(name=self.topic, partitions=places)],
        )
        answer = self._client.ask(api_keys.OFFSET_DELETE, 0, request)
        codes = {
            each.partition_index: each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        self.note(what, answer.error_code, codes)


def without_members(ask: Asker) -> None:
    """What is said of groups that nobody is in."""
    ask.join("no name", group="")
    ask.join("short session", session_ms=5999)
    ask.join("long session", session_ms=1_800_001)
    ask.join("unknown member", "nobody")
    ask.note("heartbeat", ask.heartbeat("nobody", 1))
    ask.sync("sync", "nobody", 1)
    ask.leave("leave", ("nobody", None), ("", "instance"))
    ask.leave("leave, old", ("nobody", None), version=2)
    ask.commit("commit of a member", "nobody", 1)
    ask.commit("commit of a member, new", "nobody", 1, version=9)
    ask.fetch("fetch of nothing")
    ask.describe("describe nothing")
    ask.describe("describe nothing, new", version=6)
    ask.delete("delete nothing")
    ask.delete_offsets("delete offsets of nothing")
    ask.commit("commit of nobody", metadata="note")
    ask.commit("long note", metadata="x" * 4097)
    ask.commit("no such partition", partition=9)
    ask.fetch("fetch")
    ask.describe("describe offsets alone")
    ask.list("list offsets alone")
    ask.delete_offsets("delete offsets")
    ask.commit("without a name", group="")
    ask.fetch("fetch without a name", group="")


def with_a_member(ask: Asker) -> None:
    """What is said of a group with one member, in each state."""
    # Whether the group is there already is not asked: Kafka says now this, now that.
    given = ask.join("first").member_id
    ask.join("no protocols", given, protocols=())
    member = ask.join("second", given, protocols=("range", "sticky")).member_id
    ask.describe("nothing is assigned")
    ask.commit("commit before sync", member, 1)
    ask.sync("wrong generation", member, 7)
    ask.sync("wrong type", member, 1, protocol_type="connect")
    ask.sync("wrong protocol", member, 1, protocol_name="sticky")
    ask.sync("no protocol", member, 1, protocol_name=None)
    ask.note("heartbeat before sync", ask.heartbeat(member, 1))
    ask.sync("sync", member, 1)
    ask.sync("sync again", member, 1)
    ask.describe("stable")
    ask.list("list", ("stable",), ("classic",))
    ask.list("list others", ("Empty",))
    ask.list("list other types", (), ("consumer",))
    ask.note("heartbeat", ask.heartbeat(member, 1), ask.heartbeat(member, 2))
    ask.note("heartbeat of others", ask.heartbeat("x", 1), ask.heartbeat(member, 1, "i"))
    ask.commit("commit", member, 1)
    ask.commit("commit of another generation", member, 2)
    ask.commit("commit of somebody else", "x", 1)
    ask.commit("commit of an administrator")
    ask.commit("commit of an instance", member, 1, instance="i")
    ask.join("other type", kind="connect", version=3)
    ask.join("other protocol", protocols=("other",), version=3)
    ask.delete("delete")
    ask.delete_offsets("delete offsets of what is read")
    ask.join("the leader again", member, protocols=("range", "sticky"))
    ask.note("heartbeat of the past", ask.heartbeat(member, 1))
    ask.leave("leave", ("x", None), (member, None), (member, None))
    ask.describe("left")
    ask.join("gone", member)
    ask.fetch("fetch")
    ask.delete("delete")
    ask.describe("deleted")
    ask.fetch("fetch of what is deleted")


def with_a_static_member(ask: Asker) -> None:
    """KIP-345, KIP-814."""
    first = ask.join("join", instance="i").member_id
    ask.sync("sync", first, 1, group_instance_id="i")
    second = ask.join("restart", instance="i").member_id
    ask.note("the old one", ask.heartbeat(first, 1, "i"))
    ask.commit("the old one commits", first, 1, instance="i")
    ask.sync("the old one syncs", first, 1, group_instance_id="i")
    ask.join("the old one joins", first, instance="i")
    ask.leave("the old one leaves", (first, "i"))
    ask.sync("sync again", second, 1, group_instance_id="i")
    ask.note("the new one", ask.heartbeat(second, 1, "i"), ask.heartbeat(second, 1, "j"))
    third = ask.join("restart, new", instance="i", version=9).member_id
    ask.join("other protocols", instance="i", protocols=("sticky", "range"), version=9)
    ask.note("replaced", ask.heartbeat(third, 1, "i"))
    ask.leave("by its instance", ("", "j"), ("", "i"))
    ask.describe("left")


def with_two_members(ask: Asker, other: Asker) -> None:
    """What is said while one waits for the other."""
    first = ask.join("first", version=3).member_id
    ask.sync("sync", first, 1)
    given = other.join("second").member_id
    other.join("second waits", given, waits=False)
    while ask.heartbeat(first, 1) != REBALANCE_IN_PROGRESS:
        time.sleep(0.01)
    ask.commit("commit while the others join", first, 1)
    ask.sync("sync while the others join", first, 1)
    ask.commit("commit of an administrator")
    ask.delete("delete")
    ask.list("list")
    ask.join("first again", first)
    other.joined("second")
    ask.note("heartbeats", ask.heartbeat(first, 2), other.heartbeat(given, 1))
    other.sync("second waits", given, 2, waits=False)
    ask.commit("commit before sync", first, 2)
    ask.sync("the leader assigns", first, 2)
    other.synced("second")
    other.join("the follower again", given)
    other.join("the follower changes", given, protocols=("range", "sticky"), waits=False)
    while ask.heartbeat(first, 2) != REBALANCE_IN_PROGRESS:
        time.sleep(0.01)
    ask.leave("the leader leaves", (first, None))
    other.joined("second leads")
    other.leave("and leaves", (given, None))


def said_by(port: int, topic: str) -> Said:
    said: Said = []
    for script in (without_members, with_a_member, with_a_static_member):
        with SaslClient(port) as client:
            ask = Asker(client, f"{script.__name__} {uuid.uuid4()}", topic)
            ask.await_coordinator()
            script(ask)
            said += ask.said
    with SaslClient(port) as client, SaslClient(port) as second:
        group = f"two members {uuid.uuid4()}"
        ask, other = Asker(client, group, topic), Asker(second, group, topic)
        ask.await_coordinator()
        with_two_members(ask, other)
    return said + ask.said + other.said


def test_errors_and_answers_are_those_of_kafka(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """B-E2: code for code, each request in each state."""
    name = topic(kafka, 2)
    theirs = said_by(int(kafka.bootstrap_servers.rpartition(":")[2]), name)
    with Broker(topics={name: 2}) as broker:
        ours = said_by(broker.nodes[0].port, name)
    different = [
        f"{what}: Kafka {kafkas}, here {own}"
        for (what, kafkas), (_, own) in zip(theirs, ours, strict=True)
        if kafkas != own
    ]
    assert not different, "\n".join(different)
