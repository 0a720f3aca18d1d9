"""What the embedded broker says to members of groups that it assigns is what Kafka says (B-E3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conftest import TopicFactory
from fastprod.broker import Broker
from fastprod.protocol import api_keys
from fastprod.protocol.messages.group.delete_groups import DeleteGroupsRequest
from fastprod.protocol.messages.group.heartbeat import HeartbeatRequest
from fastprod.protocol.messages.group.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fastprod.protocol.messages.group.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_cluster import KafkaCluster
from support.broker.sasl_client import SaslClient
from support.groups.consumer_group_asker import ConsumerGroupAsker, Said, fresh_group
from support.groups.group_world import subscribed

Script = Callable[[ConsumerGroupAsker], None]


def delete(ask: ConsumerGroupAsker, what: str) -> None:
    request = DeleteGroupsRequest(groups_names=[ask.group])
    answer = ask.client.ask(api_keys.DELETE_GROUPS, 2, request)
    ask.note(what, [each.error_code for each in answer.results])


def join_classic(ask: ConsumerGroupAsker, what: str, member: str = "") -> Any:
    request = JoinGroupRequest(
        group_id=ask.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscribed(ask.topics[0]))],
    )
    answer = ask.client.ask(api_keys.JOIN_GROUP, 3, request)
    ask.note(what, answer.error_code, answer.generation_id)
    return answer


def without_members(ask: ConsumerGroupAsker) -> None:
    """What is refused, and what is said of groups that are not there."""
    ask.beat("no group", "m", 1)
    ask.beat("leave no group", "m", -1)
    ask.beat("no name", "m", 1, group="")
    ask.beat("no id, new", "", 0, {}, rebalance_timeout_ms=1000, topics=ask.topics)
    ask.beat("no id", "", 1, version=0)
    ask.beat("no id, leave", "", -1, version=0)
    ask.beat("empty instance", "m", 1, instance_id="")
    ask.beat("empty rack", "m", 1, rack_id="")
    ask.beat("strange epoch", "m", -3)
    ask.beat("static leave of nobody", "m", -2)
    ask.beat("join without time", "m", 0, {}, topics=ask.topics)
    ask.beat("join without partitions", "m", 0, rebalance_timeout_ms=1000, topics=ask.topics)
    ask.beat("join with partitions", "m", 0, {ask.topics[0]: [0]}, rebalance_timeout_ms=1000)
    ask.beat("join without topics", "m", 0, {}, rebalance_timeout_ms=1000)
    ask.join("strange assignor", "m", server_assignor="mine")
    ask.join("no expression", "m", subscribed_topic_regex="(")
    ask.describe("describe nothing")
    ask.list("list nothing")
    ask.commit("commit of a member", "m", 1)
    ask.fetch("fetch of a member", "m", 1)
    delete(ask, "delete nothing")


def alone(ask: ConsumerGroupAsker) -> None:
    """One member, from its first heartbeat to its last."""
    first = ask.topics[0]
    ask.join("join", "m", rack_id="r")
    ask.describe("joined")
    ask.describe_classic("described as another kind")
    ask.list("list", ("stable",), ("consumer",))
    ask.list("list other states", ("Empty",))
    ask.list("list other types", (), ("classic",))
    ask.beat("nothing new", "m", 2)
    ask.beat("with partitions", "m", 2, {first: [0, 1, 2]})
    everything: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": [first]}
    ask.beat("everything again", "m", 2, {first: [0, 1, 2]}, **everything)
    ask.beat("from the future", "m", 10)
    ask.beat("join again", "m", 0, {}, **everything)
    ask.beat("an epoch that is over", "m", 0, {first: [0]}, topics=[first])
    ask.beat("somebody else", "x", 2)
    ask.beat("an instance", "m", 2, instance_id="i")
    ask.commit("commit", "m", 2)
    ask.commit("commit by topic id", "m", 2, version=10)
    ask.commit("commit by an unknown id", "m", 2, version=10, topic_id=b"?" * 16)
    ask.commit("no such partition", "m", 2, partition=9)
    ask.commit("commit of an old version", "m", 2, version=8)
    ask.commit("commit of the future", "m", 3)
    ask.commit("commit of somebody else", "x", 2)
    ask.commit("commit of an administrator")
    ask.fetch("fetch", "m", 2)
    ask.fetch("fetch by topic id", "m", 2, version=10)
    ask.fetch("fetch by an unknown id", "m", 2, version=10, topic_id=b"?" * 16)
    ask.fetch("fetch of the future", "m", 3)
    ask.fetch("fetch of somebody else", "x", 2)
    ask.fetch("fetch of an administrator")
    ask.fetch("fetch all", takes_all=True)
    ask.beat("more topics", "m", 2, topics=ask.topics)
    ask.describe("with more topics")
    ask.beat("fewer topics", "m", 3, {name: [0, 1, 2] for name in ask.topics}, topics=[first])
    ask.describe("with fewer topics")
    ask.beat("given up", "m", 4, {first: [0, 1, 2]})
    ask.beat("a topic that is not there", "m", 4, topics=[first, "nowhere"])
    delete(ask, "delete")
    ask.beat("leave", "m", -1)
    ask.describe("left")
    ask.beat("after that", "m", 4)
    ask.list("list of nobody")
    ask.commit("commit of nobody")
    ask.fetch("fetch of nobody", "m", 4)
    ask.join("join anew", "m")
    ask.beat("leave again", "m", -1)
    delete(ask, "delete nobody's")
    ask.describe("deleted")


def together(ask: ConsumerGroupAsker) -> None:
    """Members that come and go while others have partitions."""
    first = ask.topics[0]
    ask.join("join", "a")
    ask.join("another one", "b")
    ask.describe("two")
    ask.beat("what it has to give up", "a", 2, {first: [0, 1, 2]})
    ask.describe("one has to give up")
    ask.beat("it still has it", "a", 2, {first: [0, 1, 2]})
    ask.beat("it does not say", "a", 2)
    ask.beat("the other waits", "b", 3, {})
    ask.commit("commit meanwhile", "a", 2, partition=2)
    ask.beat("given up", "a", 2, {first: [0, 1]})
    ask.commit("commit of what was given up", "a", 2, partition=2)
    ask.commit("commit of the epoch before", "a", 2, partition=0)
    ask.beat("the answer was lost", "a", 2, {first: [0, 1]})
    ask.beat("it has more than it had", "a", 2, {first: [0, 1, 2]})
    ask.beat("the other gets it", "b", 3, {})
    ask.commit("commit of the epoch before it had it", "b", 2, partition=2)
    ask.commit("commit of what it has", "b", 3, partition=2)
    ask.describe("stable")
    ask.join("a third one", "c", topics=ask.topics, server_assignor="range")
    ask.describe("three")
    ask.beat("leave", "a", -1)
    ask.describe("without the first")
    ask.beat("share of the second", "b", 3, {first: [2]})
    ask.beat("share of the third", "c", 4, {})
    ask.beat("again", "b", 5, {first: [0, 2]})
    for each in ("b", "c"):
        ask.beat("leave", each, -1)
    ask.describe("nobody")


def static(ask: ConsumerGroupAsker) -> None:
    """Instances that restart."""
    first = ask.topics[0]
    ask.join("join", "a", instance_id="i")
    ask.join("another instance", "b", instance_id="j")
    ask.join("the same instance", "x", instance_id="i")
    ask.beat("somebody else as that instance", "x", 2, instance_id="i")
    ask.beat("another one leaves", "x", -1, instance_id="i")
    ask.beat("nobody's instance", "a", 2, instance_id="k")
    ask.beat("it lives", "a", 2, {first: [0, 1, 2]}, instance_id="i")
    ask.beat("it gives up", "a", 2, {first: [0, 1]}, instance_id="i")
    ask.beat("the other gets it", "b", 3, {}, instance_id="j")
    ask.describe("stable")
    ask.beat("it will be back", "a", -2, instance_id="i")
    ask.describe("away")
    ask.beat("another one leaves", "x", -2, instance_id="i")
    ask.beat("it is away", "a", 3, instance_id="i")
    ask.join("it is back", "c", instance_id="i")
    ask.describe("back")
    ask.beat("the old one", "a", 3, instance_id="i")
    ask.beat("the new one", "c", 3, instance_id="i")
    ask.commit("the old one commits", "a", 3, instance="i")
    ask.commit("the new one commits", "c", 3, instance="i")
    ask.beat("it leaves for good", "c", -1, instance_id="i")
    ask.beat("the other one", "b", 3, {first: [2]}, instance_id="j")
    ask.describe("alone")
    ask.beat("that leaves, too", "b", -1, instance_id="j")


def both_kinds(ask: ConsumerGroupAsker) -> None:
    """Groups that change their kind, and those that do not (the upgrade is disabled)."""
    member = join_classic(ask, "join as a member that assigns").member_id
    ask.join("the other kind", "m")
    ask.beat("the other kind lives", "m", 2)
    ask.describe("described as another kind")
    leaving = [MemberIdentity(member_id=member)]
    ask.client.ask(api_keys.LEAVE_GROUP, 3, LeaveGroupRequest(group_id=ask.group, members=leaving))
    ask.commit("commit")
    ask.join("nobody is left", "m")
    ask.fetch("the offsets are kept", "m", 2)
    ask.list("list")
    request = HeartbeatRequest(group_id=ask.group, generation_id=1, member_id="m")
    ask.note("heartbeat", ask.client.ask(api_keys.HEARTBEAT, 3, request).error_code)
    left = LeaveGroupRequest(group_id=ask.group, members=[MemberIdentity(member_id="m")])
    answer = ask.client.ask(api_keys.LEAVE_GROUP, 3, left)
    ask.note("leave", answer.error_code, [each.error_code for each in answer.members])
    ask.beat("leave", "m", -1)
    join_classic(ask, "a member that is not there", "m")
    join_classic(ask, "members assign again")
    ask.fetch("the offsets are still kept")
    ask.describe("described again")


SCRIPTS: list[Script] = [without_members, alone, together, static, both_kinds]


def said_by(port: int, topics: list[str]) -> Said:
    said: Said = []
    for script in SCRIPTS:
        with SaslClient(port) as client:
            ask = ConsumerGroupAsker(client, fresh_group(script.__name__), topics)
            ask.await_coordinator()
            script(ask)
            said += [(f"{script.__name__}: {what}", found) for what, found in ask.said]
    return said


def test_heartbeats_are_answered_as_by_kafka(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """B-E3: code for code, epoch for epoch, each request in each state."""
    names = [topic(kafka, 3), topic(kafka, 3)]
    theirs = said_by(int(kafka.bootstrap_servers.rpartition(":")[2]), names)
    with Broker(topics=dict.fromkeys(names, 3)) as broker:
        ours = said_by(broker.nodes[0].port, names)
    different = [
        f"{what}:\n  Kafka {kafkas}\n  here  {own}"
        for (what, kafkas), (_, own) in zip(theirs, ours, strict=True)
        if kafkas != own
    ]
    assert not different, "\n".join(different)
