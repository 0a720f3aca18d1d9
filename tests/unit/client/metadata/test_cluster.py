"""Cluster: lookups, merging of partial answers, leader hints (P-H.1, P-H.4.4, P-H.6, P-A.5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from fastprod.client.metadata.cluster import (
    NO_PARTITIONS,
    Cluster,
    ClusterUpdate,
    LeaderHint,
    Partitions,
    TopicState,
)
from fastprod.error_codes import INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED
from fastprod.protocol.messages.metadata import MetadataResponsePartition
from fastprod.records import Node, PartitionInfo

B1 = Node(1, "b1", 9092)
B2 = Node(2, "b2", 9092, "rack-2")
ID = bytes(range(16))


def partitions(*leaders: int, epoch: int = 5) -> Partitions:
    return {
        number: MetadataResponsePartition(0, number, leader, epoch, (1, 3), (1,), (3,))
        for number, leader in enumerate(leaders)
    }


def update(
    topics: Mapping[str, Partitions],
    *,
    nodes: Iterable[Node] = (B1, B2),
    ids: Mapping[str, bytes] | None = None,
    invalid: Iterable[str] = (),
    unauthorized: Iterable[str] = (),
) -> ClusterUpdate:
    states = {name: TopicState(found, (ids or {}).get(name)) for name, found in topics.items()}
    for code, names in (
        (INVALID_TOPIC_EXCEPTION, invalid),
        (TOPIC_AUTHORIZATION_FAILED, unauthorized),
    ):
        states.update({name: TopicState(NO_PARTITIONS, error_code=code) for name in names})
    return ClusterUpdate({node.id: node for node in nodes}, states)


def test_a_bootstrap_cluster_knows_addresses_and_nothing_else() -> None:
    """P-H.5.1."""
    first = Node(-1, "b1", 9092)
    cluster = Cluster.bootstrap([first])
    assert cluster.is_bootstrap
    assert cluster.nodes == (first,)
    assert cluster.node(-1) is first
    assert cluster.topics == frozenset()
    assert Cluster.empty().nodes == ()


def test_everything_about_a_topic_is_found() -> None:
    """P-H.1."""
    cluster = Cluster(update({"t": partitions(1, 2, 7, -1)}, ids={"t": ID}, invalid=["x y"]))
    assert not cluster.is_bootstrap
    assert cluster.topics == {"t"}
    assert cluster.partition_count_for_topic("t") == 4
    assert cluster.topic_id("t") == ID
    assert cluster.leader_for("t", 0) is B1
    assert cluster.leader_for("t", 1) is B2
    assert cluster.partitions("t")[1] == MetadataResponsePartition(0, 1, 2, 5, (1, 3), (1,), (3,))
    assert cluster.partitions("t")[3].leader_id == -1
    assert [cluster.error_code(topic) for topic in ("x y", "t", "u")] == [
        INVALID_TOPIC_EXCEPTION,
        0,
        0,
    ]


def test_a_leader_outside_the_node_set_is_unknown() -> None:
    """P-H.4.4: and -1 is no leader even while a bootstrap node has that id."""
    topics = {"t": partitions(1, 7, -1)}
    cluster = Cluster(update(topics, nodes=[B1, Node(-1, "b1", 9092)]))
    assert [cluster.leader_for("t", number) for number in range(3)] == [B1, None, None]
    assert [info.partition for info in cluster.available_partitions_for_topic("t")] == [0]


def test_partitions_for_a_topic_come_in_order_with_their_nodes() -> None:
    """P-A.5.1; a replica on an unknown broker keeps its id."""
    topics = {"t": dict(sorted(partitions(2, 1).items(), reverse=True))}
    infos = Cluster(update(topics)).partitions_for_topic("t")
    gone = (Node(3, "", -1),)
    assert infos == [
        PartitionInfo("t", 0, B2, (B1, *gone), (B1,), gone),
        PartitionInfo("t", 1, B1, (B1, *gone), (B1,), gone),
    ]


def test_of_an_unknown_topic_nothing_is_known() -> None:
    cluster = Cluster(update({"t": partitions(1)}))
    assert cluster.partition_count_for_topic("u") is None
    assert cluster.partitions_for_topic("u") == []
    assert cluster.available_partitions_for_topic("u") == []
    assert cluster.partitions("u").get(0) is None
    assert cluster.leader_for("u", 0) is None
    assert cluster.leader_for("t", 1) is None
    assert cluster.topic_id("u") is None
    assert cluster.partitions("u") is NO_PARTITIONS


def test_a_partial_answer_is_merged_over_what_stays() -> None:
    """P-H.2.2: nodes are the answer's; topics that were given up disappear."""
    old = Cluster(
        update(
            {"kept": partitions(1), "named": partitions(1), "dropped": partitions(1)},
            ids={"kept": ID, "named": ID, "dropped": ID},
            invalid=["bad-kept", "bad-named"],
            unauthorized=["no-kept"],
        )
    )
    new = old.with_updates(
        update({"named": partitions(2), "new": partitions(2)}, nodes=[B2], ids={"new": ID}),
        without=["named", "dropped", "bad-named", "never there"],
    )
    assert new.topics == {"kept", "named", "new"}
    assert new.nodes == (B2,)
    assert new.leader_for("kept", 0) is None
    assert new.leader_for("named", 0) is B2
    assert [new.topic_id(topic) for topic in ("kept", "named", "new")] == [ID, None, ID]
    errors = {topic: new.error_code(topic) for topic in ("bad-kept", "bad-named", "no-kept")}
    assert errors == {
        "bad-kept": INVALID_TOPIC_EXCEPTION,
        "bad-named": 0,
        "no-kept": TOPIC_AUTHORIZATION_FAILED,
    }
    assert old.topics == {"kept", "named", "dropped"}
    assert new.changed_topics(old) == {"kept", "named", "new"}, "the leader of `kept` is gone"
    assert new.removed_topics(old) == {"dropped"}
    assert old.removed_topics(new) == {"new"}


def test_a_topic_changes_by_its_leaders_coming_and_going() -> None:
    """P-H.4.4: the partition's own metadata may say all the while that it leads."""
    topics = {"a": partitions(1), "b": partitions(2, 2)}
    both = Cluster(update(topics))
    one = Cluster(update(topics, nodes=[B2]))
    assert one.changed_topics(both) == both.changed_topics(one) == {"a"}
    assert both.changed_topics(both) == frozenset()


def test_a_topic_changes_by_its_partitions_or_its_id() -> None:
    same = partitions(1)
    old = Cluster(update({"a": same, "b": same, "c": same}, ids={"a": ID, "b": ID}))
    new = Cluster(update({"a": same, "b": same, "c": partitions(2)}, ids={"a": ID}))
    assert new.changed_topics(old) == {"b", "c"}


def test_a_newer_hint_moves_the_leader_and_adds_its_node() -> None:
    """P-H.6, KIP-951."""
    old = Cluster(update({"t": partitions(1, 1), "u": partitions(1)}, ids={"t": ID}))
    b3 = Node(3, "b3", 9092)
    b2 = Node(2, "elsewhere", 9092)
    hint = LeaderHint("t", 1, 3, 6)
    new, taken = old.with_leader_hint([hint], [b3, b2])
    assert taken == [hint]
    assert new.leader_for("t", 1) is b3
    assert new.partitions("t")[1] == MetadataResponsePartition(0, 1, 3, 6, (1, 3), (1,), (3,))
    assert new.leader_for("t", 0) is B1
    assert new.node(2) is b2
    assert new.topic_id("t") == ID
    assert new.changed_topics(old) == {"t"}
    assert old.leader_for("t", 1) is B1


@pytest.mark.parametrize(
    "hint",
    [
        LeaderHint("t", 0, 2, 5),
        LeaderHint("t", 0, 2, 4),
        LeaderHint("t", 0, 2, -1),
        LeaderHint("t", 0, 9, 6),
        LeaderHint("t", 0, -1, 6),
        LeaderHint("t", 1, 2, 6),
        LeaderHint("u", 0, 2, 6),
    ],
)
def test_a_hint_that_is_old_or_of_unknown_things_changes_nothing(hint: LeaderHint) -> None:
    """P-H.6: newer epoch, known node, cached partition; P-L.176 ...OnUpdatePartitionLeadership."""
    old = Cluster(update({"t": partitions(1)}))
    new, taken = old.with_leader_hint([hint], [Node(3, "b3", 9092)])
    assert new is old
    assert taken == []


def test_of_two_hints_for_a_partition_the_newer_one_stays() -> None:
    old = Cluster(update({"t": partitions(1)}))
    newer, older = LeaderHint("t", 0, 2, 8), LeaderHint("t", 0, 1, 7)
    new, taken = old.with_leader_hint([newer, older], [])
    assert taken == [newer]
    assert new.leader_for("t", 0) is B2
