"""Cluster: one immutable snapshot of what the brokers told us (contract H.1, H.4, H.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from fastprod.protocol import PartitionMetadata
from fastprod.records import Node, PartitionInfo

_T = TypeVar("_T")

UNKNOWN_CONTROLLER: Final = -1

_NO_TOPICS: Final[frozenset[str]] = frozenset()

Partitions = Mapping[int, PartitionMetadata]
"""The partitions of one topic by number; a read-only mapping once it is in a Cluster."""


NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class LeaderHint(NamedTuple):
    """What a Produce response says about a partition's new leader (KIP-951, contract H.6)."""

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int


class ClusterUpdate(NamedTuple):
    """The part of a metadata response that a snapshot takes over."""

    nodes: Mapping[int, Node]
    topics: Mapping[str, Partitions]
    topic_ids: Mapping[str, bytes]
    invalid_topics: Set[str]
    unauthorized_topics: Set[str]
    internal_topics: Set[str]
    cluster_id: str | None
    controller_id: int


class Cluster:
    """Nodes, topics and partitions at one moment. Immutable: any thread, no lock, never blocks.

    A partition's leader is unknown (None) while it has none or while its node is not in the node
    set. Snapshots made from one another share what did not change.

    Source: Java's ``Cluster`` and ``MetadataSnapshot``.
    """

    __slots__ = ("_is_bootstrap", "_update")

    def __init__(self, update: ClusterUpdate, *, is_bootstrap: bool = False) -> None:
        self._update = update
        self._is_bootstrap = is_bootstrap

    @classmethod
    def empty(cls) -> Cluster:
        """A cluster of which nothing is known."""
        return cls.bootstrap(())

    @classmethod
    def bootstrap(cls, nodes: Iterable[Node]) -> Cluster:
        """A cluster of which only addresses to start from are known (contract H.5.1)."""
        by_id = {node.id: node for node in nodes}
        return cls(
            ClusterUpdate(
                by_id, {}, {}, _NO_TOPICS, _NO_TOPICS, _NO_TOPICS, None, UNKNOWN_CONTROLLER
            ),
            is_bootstrap=True,
        )

    @property
    def is_bootstrap(self) -> bool:
        """True until the first answer of a broker."""
        return self._is_bootstrap

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every known node."""
        return tuple(self._update.nodes.values())

    def node(self, node_id: int) -> Node | None:
        """The node with this id, if known."""
        return self._update.nodes.get(node_id)

    @property
    def topics(self) -> frozenset[str]:
        """Topics with at least one known partition."""
        return frozenset(self._update.topics)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's own id, if a broker told it."""
        return self._update.cluster_id

    @property
    def controller(self) -> Node | None:
        """The controller, if known."""
        controller_id = self._update.controller_id
        return self.node(controller_id) if controller_id >= 0 else None

    @property
    def invalid_topics(self) -> Set[str]:
        """Topics whose name the brokers refused."""
        return self._update.invalid_topics

    @property
    def unauthorized_topics(self) -> Set[str]:
        """Topics the brokers did not let us see."""
        return self._update.unauthorized_topics

    @property
    def internal_topics(self) -> Set[str]:
        """Kafka's own topics among ``topics``."""
        return self._update.internal_topics

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's 16-byte id; None if unknown, or if the brokers have no ids."""
        return self._update.topic_ids.get(topic)

    def partitions(self, topic: str) -> Partitions:
        """Partition metadata by partition number; empty for an unknown topic."""
        return self._update.topics.get(topic, NO_PARTITIONS)

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """Metadata of one partition, if known."""
        return self._update.topics.get(topic, NO_PARTITIONS).get(partition)

    def partition_count_for_topic(self, topic: str) -> int | None:
        """Number of known partitions; None for an unknown topic."""
        partitions = self._update.topics.get(topic)
        return None if partitions is None else len(partitions)

    def leader_for(self, topic: str, partition: int) -> Node | None:
        """The leader's node, or None while it is unknown."""
        known = self.partition(topic, partition)
        return None if known is None else self._leader(known)

    def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Every known partition of the topic, by number; empty for an unknown topic (A.5.1)."""
        partitions = self._update.topics.get(topic, NO_PARTITIONS)
        return [self._info(topic, partitions[number]) for number in sorted(partitions)]

    def available_partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """The partitions of the topic that have a known leader, by number."""
        return [info for info in self.partitions_for_topic(topic) if info.leader is not None]

    def with_updates(self, update: ClusterUpdate, *, keep: Iterable[str]) -> Cluster:
        """The snapshot after a partial response: ``update`` merged over this one.

        Nodes, cluster id and controller are the update's.

        Args:
            update: what the response holds, for the topics it names.
            keep: topics of this snapshot the response did not name and that stay.
        """
        old = self._update
        kept = set(keep)
        return Cluster(
            ClusterUpdate(
                update.nodes,
                _pick(old.topics, kept) | dict(update.topics),
                _pick(old.topic_ids, kept) | dict(update.topic_ids),
                frozenset((old.invalid_topics & kept) | update.invalid_topics),
                frozenset((old.unauthorized_topics & kept) | update.unauthorized_topics),
                frozenset((old.internal_topics & kept) | update.internal_topics),
                update.cluster_id,
                update.controller_id,
            )
        )

    def with_leader_hint(
        self, hints: Iterable[LeaderHint], nodes: Iterable[Node]
    ) -> tuple[Cluster, list[LeaderHint]]:
        """The snapshot after leader hints, and the hints that were taken (contract H.6).

        A hint is taken if its epoch is newer than the partition's, its node is in ``nodes`` or
        known already, and the partition is known. ``nodes`` replace known ones of the same id,
        unless no hint is taken: then the snapshot is this one.
        """
        merged = {**self._update.nodes, **{node.id: node for node in nodes}}
        topics = dict(self._update.topics)
        changed: dict[str, dict[int, PartitionMetadata]] = {}
        taken: list[LeaderHint] = []
        for hint in hints:
            known = topics.get(hint.topic, NO_PARTITIONS).get(hint.partition)
            if known is None or hint.leader_id < 0 or hint.leader_id not in merged:
                continue
            if hint.leader_epoch <= known.leader_epoch:
                continue
            if hint.topic not in changed:
                changed[hint.topic] = dict(topics[hint.topic])
                topics[hint.topic] = MappingProxyType(changed[hint.topic])
            changed[hint.topic][hint.partition] = known._replace(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            )
            taken.append(hint)
        if not taken:
            return self, []
        update = self._update._replace(nodes=merged, topics=topics)
        return Cluster(update, is_bootstrap=self._is_bootstrap), taken

    def changed_topics(self, older: Cluster) -> frozenset[str]:
        """Topics of this snapshot whose partitions, leaders or id differ from those in ``older``.

        A leader that left the node set, or came back, differs although the partition does not.
        """
        come_or_gone = self._update.nodes.keys() ^ older._update.nodes.keys()
        return frozenset(
            topic
            for topic, partitions in self._update.topics.items()
            if older._update.topics.get(topic) is not partitions
            or older.topic_id(topic) != self.topic_id(topic)
            or (come_or_gone and any(p.leader_id in come_or_gone for p in partitions.values()))
        )

    def _info(self, topic: str, known: PartitionMetadata) -> PartitionInfo:
        return PartitionInfo(
            topic,
            known.partition,
            self._leader(known),
            self._nodes_of(known.replicas),
            self._nodes_of(known.isr),
            self._nodes_of(known.offline_replicas),
        )

    def _leader(self, known: PartitionMetadata) -> Node | None:
        # -1 stands for "no leader" here, and for the first bootstrap address among the nodes.
        return self.node(known.leader_id) if known.leader_id >= 0 else None

    def _nodes_of(self, node_ids: tuple[int, ...]) -> tuple[Node, ...]:
        # A replica on a broker that is down is not in the node set: it keeps its id alone.
        return tuple([self.node(node_id) or Node(node_id, "", -1) for node_id in node_ids])


def _pick(mapping: Mapping[str, _T], topics: Set[str]) -> dict[str, _T]:
    return {topic: value for topic, value in mapping.items() if topic in topics}
