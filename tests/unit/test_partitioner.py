"""fastprod.partitioner: users' partitioners, round robin, and the partition of a key (P-C.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.partitioner import (
    BoundPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    partition_for_key,
)
from fastprod.records import Node, PartitionInfo

NODE = Node(0, "kafka", 9092)


class FakeCluster:
    """Topics by name: for each partition, whether it has a leader."""

    def __init__(self, **topics: Sequence[bool]) -> None:
        self.topics = topics

    @property
    def nodes(self) -> Sequence[Node]:
        return (NODE,)

    def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        return [
            PartitionInfo(topic, number, NODE if has_leader else None)
            for number, has_leader in enumerate(self.topics.get(topic, ()))
        ]

    def available_partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        return [info for info in self.partitions_for_topic(topic) if info.leader is not None]

    def partition_count_for_topic(self, topic: str) -> int | None:
        return len(self.topics[topic]) if topic in self.topics else None

    def leader_for(self, topic: str, partition: int) -> Node | None:
        return self.partitions_for_topic(topic)[partition].leader


class Recording(Partitioner):
    """Returns what it was told to, and remembers what it was asked."""

    def __init__(self, chosen: Any = 1) -> None:
        self.chosen = chosen
        self.asked: list[tuple[Any, ...]] = []
        self.client_id: str | None = None
        self.closed_count = 0

    def configure(self, config: Mapping[str, Any]) -> None:
        self.client_id = config["client.id"]

    def partition(self, *arguments: Any) -> int:
        self.asked.append(arguments)
        chosen: int = self.chosen
        return chosen

    def close(self) -> None:
        self.closed_count += 1


CLUSTER = FakeCluster(orders=[True] * 3)


def bound(given: Any) -> BoundPartitioner:
    return BoundPartitioner(given, ProducerConfig(bootstrap_servers="h:1").values())


def choose(given: Any, cluster: FakeCluster = CLUSTER, topic: str = "orders") -> int:
    return bound(given).partition(topic, "k", b"k", "v", b"v", cluster)


def turns(partitioner: Partitioner, cluster: FakeCluster, count: int, key: bytes | None) -> Any:
    return Counter(
        partitioner.partition("orders", key, key, b"v", b"v", cluster) for _ in range(count)
    )


@pytest.mark.parametrize(
    ("key", "three", "six", "twelve"),
    [
        (b"21", 0, 0, 0),
        (b"foobar", 0, 0, 6),
        (b"a-little-bit-long-string", 2, 2, 8),
        (b"a-little-bit-longer-string", 2, 5, 11),
        (b"abc", 0, 3, 3),
        (b"", 0, 3, 9),
        (b"\x00", 2, 2, 8),
        (b"a", 1, 4, 4),
        (b"hello world", 1, 1, 7),
        (bytes.fromhex("c3a9e282acf09d849e"), 0, 0, 0),
        (b"\xff\xff\xff\xff", 2, 5, 5),
        (bytes(range(256)), 1, 4, 10),
    ],
)
def test_a_key_has_the_partition_that_kafka_gives_it(
    key: bytes, three: int, six: int, twelve: int
) -> None:
    """P-C.3, P-C.4 (the contract's table), P-L.81; an empty key is a key."""
    assert [partition_for_key(key, count) for count in (1, 3, 6, 12)] == [0, three, six, twelve]


@pytest.mark.parametrize("count", [0, -1])
def test_a_key_needs_a_partition(count: int) -> None:
    with pytest.raises(ValueError, match=f"must be at least 1, not {count}"):
        partition_for_key(b"k", count)


def test_round_robin_takes_each_partition_in_turn() -> None:
    """P-C.3.4, P-L.82."""
    partitioner = RoundRobinPartitioner()
    ask = [partitioner.partition("orders", None, None, b"", b"", CLUSTER) for _ in range(7)]
    assert ask == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("key", [None, b"always the same"])
def test_round_robin_is_even_whatever_the_key(key: bytes | None) -> None:
    """P-C.3.4, P-L.82."""
    assert turns(RoundRobinPartitioner(), CLUSTER, 30, key) == {0: 10, 1: 10, 2: 10}


def test_round_robin_passes_over_partitions_without_a_leader() -> None:
    """P-C.3.4, P-L.82."""
    cluster = FakeCluster(orders=[True, False, True])
    assert turns(RoundRobinPartitioner(), cluster, 20, None) == {0: 10, 2: 10}


def test_round_robin_takes_all_partitions_when_none_has_a_leader() -> None:
    """P-C.3.4."""
    cluster = FakeCluster(orders=[False, False])
    assert turns(RoundRobinPartitioner(), cluster, 20, None) == {0: 10, 1: 10}


def test_round_robin_counts_each_topic_by_itself() -> None:
    """P-C.3.4, P-L.82."""
    partitioner = RoundRobinPartitioner()
    cluster = FakeCluster(a=[True] * 4, b=[True] * 4)
    topics = ["a", "a", "b", "a", "b"]
    chosen = [partitioner.partition(topic, None, None, b"", b"", cluster) for topic in topics]
    assert chosen == [0, 1, 0, 2, 1]


def test_round_robin_refuses_a_topic_without_partitions() -> None:
    with pytest.raises(ValueError, match="topic 'nowhere' has no known partition"):
        RoundRobinPartitioner().partition("nowhere", None, None, b"", b"", CLUSTER)


def test_a_partitioner_is_asked_with_key_value_their_bytes_and_the_cluster() -> None:
    """P-C.3.3."""
    partitioner = Recording()
    assert choose(partitioner) == 1
    assert partitioner.asked == [("orders", "k", b"k", "v", b"v", CLUSTER)]


def test_a_function_of_six_arguments_is_a_partitioner() -> None:
    assert choose(lambda topic, key, key_bytes, value, value_bytes, cluster: len(key_bytes)) == 1
    assert choose(lambda *arguments: 2) == 2


@pytest.mark.parametrize("given", [lambda key, partitions: 0, 5, "text", object, object()])
def test_what_cannot_be_asked_is_refused_at_construction(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"partitioner_class = .*must have partition"):
        bound(given)


def test_a_class_is_made_and_configured_and_an_object_is_not() -> None:
    """P-C.3.3, P-A.1.2."""
    assert bound(Recording).target.client_id.startswith("producer-")
    own = Recording()
    assert bound(own).target is own
    assert own.client_id is None


def test_the_settings_can_name_a_partitioner() -> None:
    config = ProducerConfig(
        {
            "bootstrap.servers": "h:1",
            "partitioner.class": "fastprod.partitioner.RoundRobinPartitioner",
        }
    )
    assert isinstance(
        BoundPartitioner(config.partitioner_class, config.values()).target, RoundRobinPartitioner
    )


@pytest.mark.parametrize("chosen", [-1, 3])
def test_a_partition_that_the_topic_does_not_have_is_refused(chosen: int) -> None:
    """P-C.3 step 2, P-L.22."""
    with pytest.raises(
        ValueError, match=f"returned partition {chosen} for topic 'orders', which has 3"
    ):
        choose(Recording(chosen))


def test_a_negative_partition_is_refused_even_if_the_topic_is_not_known() -> None:
    """P-L.22."""
    with pytest.raises(ValueError, match="returned partition -1 for topic 'nowhere'; partitions"):
        choose(Recording(-1), topic="nowhere")


@pytest.mark.parametrize("chosen", [None, "1", 1.0])
def test_a_result_that_is_no_integer_is_refused(chosen: Any) -> None:
    with pytest.raises(TypeError, match=r"returned a .* for topic 'orders'; it must return an int"):
        choose(Recording(chosen))


def test_an_error_of_the_partitioner_passes_unchanged() -> None:
    """P-A.3.12, last row."""
    with pytest.raises(ZeroDivisionError):
        choose(lambda *arguments: 1 // 0)


def test_a_partitioner_is_closed_once() -> None:
    """P-L.9."""
    partitioner = Recording()
    ready = bound(partitioner)
    ready.close()
    ready.close()
    bound(lambda *arguments: 0).close()
    assert partitioner.closed_count == 1
