"""Users' partitioners, the round-robin one, and the partition of a key (P-C.3)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fastprod._core.bytes.murmur2 import hash_key
from fastprod.errors import ConfigError
from fastprod.plugin_loading import make_plugin, plugin_name, takes
from fastprod.records import Node, PartitionInfo

_ARGUMENT_COUNT = 6


class ClusterView(Protocol):
    """What a partitioner sees of the cluster; it never changes while it looks."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Every known broker."""
        ...

    def partitions_for_topic(self, topic: str) -> Sequence[PartitionInfo]:
        """The partitions of a topic by number; empty if it is not known."""
        ...

    def available_partitions_for_topic(self, topic: str) -> Sequence[PartitionInfo]:
        """Those of them that have a leader."""
        ...

    def partition_count_for_topic(self, topic: str) -> int | None:
        """How many partitions a topic has; None if it is not known."""
        ...

    def leader_for(self, topic: str, partition: int) -> Node | None:
        """The leader's broker; None while there is none."""
        ...


ChoosePartition = Callable[[str, Any, bytes | None, Any, bytes | None, ClusterView], int]


class Partitioner:
    """Base of users' partitioners (P-C.3.3).

    A partitioner need not extend this class: any object with `partition`, or a function of the same
    six arguments, is accepted.

    Threads: it is called in the threads that send, several at a time; it holds them up while it
    blocks.  Source: Partitioner; setting partitioner_class; contract P-C.3.3.
    """

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take what it needs from the settings. Called once, before anything else.

        Args:
            config: the producer's settings by their dotted names; client.id is set.

        What this raises ends the producer's constructor with a ConfigError.
        """

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        """Return the 0-based partition of a record that names none itself.

        Args:
            topic: topic name; the cluster knows it.
            key: key as given to `send`.
            key_bytes: key as serialized.
            value: value as given to `send`.
            value_bytes: value as serialized.
            cluster: the partitions and brokers known now; it does not change during the call.

        A partition that the topic does not have, or an exception, is raised by `send`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give back what it holds; called once, when the producer closes."""


class RoundRobinPartitioner(Partitioner):
    """Each partition of a topic in turn, whatever the key (P-C.3.4).

    Partitions without a leader are left out, unless none has one.  Threads: any.  Does not block.
    Source: RoundRobinPartitioner.
    """

    def __init__(self) -> None:
        # No lock: next() of a count and setdefault() are one step each.
        self._counters: dict[str, itertools.count[int]] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        counter = self._counters.get(topic)
        if counter is None:
            counter = self._counters.setdefault(topic, itertools.count())
        turn = next(counter)
        available = cluster.available_partitions_for_topic(topic)
        if available:
            return available[turn % len(available)].partition
        partition_count = cluster.partition_count_for_topic(topic)
        if not partition_count:
            raise ValueError(f"topic {topic!r} has no known partition to choose from")
        return turn % partition_count


def partition_for_key(key_bytes: bytes, partition_count: int) -> int:
    """Return the partition that Kafka's default partitioner gives a serialized key (P-C.3, P-C.4).

    Args:
        key_bytes: the key as serialized; an empty key is a key.
        partition_count: partitions of the topic, with or without a leader, 1 or more.

    Raises:
        ValueError: `partition_count` is below 1.

    Threads: any.  Does not block.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count must be at least 1, not {partition_count}")
    return (hash_key(key_bytes) & 0x7FFFFFFF) % partition_count


class BoundPartitioner:
    """A user's partitioner ready for use: one call shape, checked results, closed once.

    Args:
        given: a class (made and configured here), an object with `partition` (used as it is), or a
            function of the same six arguments.
        config: the settings by dotted name.

    Raises:
        ConfigError: `given` is none of these, or could not be made.
    """

    __slots__ = ("_choose", "_closed", "target")

    def __init__(self, given: Any, config: Mapping[str, Any]) -> None:
        if isinstance(given, type):
            given = make_plugin("partitioner_class", given, config)
        self.target = given
        choose = getattr(given, "partition", None) or given
        if not callable(choose) or not takes(choose, _ARGUMENT_COUNT):
            raise ConfigError(
                f"partitioner_class = {plugin_name(given)}: must have partition(topic, key, "
                f"key_bytes, value, value_bytes, cluster), or be a function of these six",
                key="partitioner_class",
            )
        self._choose: ChoosePartition = choose
        self._closed = False

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        """Ask the user's partitioner.

        Raises:
            TypeError: it returned something other than an integer.
            ValueError: it returned a partition that the topic does not have.
            Exception: whatever it raises itself, unchanged (P-A.3.12).
        """
        chosen = self._choose(topic, key, key_bytes, value, value_bytes, cluster)
        try:
            partition = operator.index(chosen)
        except TypeError:
            raise TypeError(
                f"partitioner {plugin_name(self.target)} returned a {type(chosen).__name__} for "
                f"topic {topic!r}; it must return an int"
            ) from None
        partition_count = cluster.partition_count_for_topic(topic)
        if partition < 0 or (partition_count is not None and partition >= partition_count):
            known = "" if partition_count is None else f", which has {partition_count}"
            raise ValueError(
                f"partitioner {plugin_name(self.target)} returned partition {partition} for topic "
                f"{topic!r}{known}; partitions are numbered from 0"
            )
        return partition

    def close(self) -> None:
        """Close the partitioner, if it can be closed; a second call does nothing."""
        if not self._closed:
            self._closed = True
            close = getattr(self.target, "close", None)
            if callable(close):
                close()
