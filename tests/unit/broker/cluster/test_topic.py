"""One topic (B-D4)."""

from __future__ import annotations

from fastprod.broker.cluster.topic import Topic
from support.broker.world import BrokerWorld


def test_a_topic_finds_its_partitions_by_number() -> None:
    with BrokerWorld(topics={"t": 2}) as world:
        topic = world.state.topics.get("t")
        assert isinstance(topic, Topic)
        assert topic.partition(1) is topic.partitions[1]
        assert topic.partition(2) is topic.partition(-1) is None
        assert not topic.is_internal
        assert [each.replicas for each in topic.saved().partitions] == [[0], [0]]
