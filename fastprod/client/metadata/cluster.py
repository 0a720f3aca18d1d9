"""Cluster: one immutable snapshot of what the brokers told us (contract P-H.1, P-H.4, P-H.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from fastprod.client.metadata.topic_map import TopicMap
from fastprod.protocol.messages.metadata import MetadataResponsePartition
from fastprod.records import Node, PartitionInfo

Partitions = Mapping[int, MetadataResponsePartition]
"""The partitions of one topic by number; a read-only mapping once it is in a Cluster."""


NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class LeaderHint(NamedTuple):
    """What a Produce response says about a partition's new leader (KIP-951, contract P-H.6)."""

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int


class TopicState(NamedTuple):
    """What brokers told of one topic.

    Attributes:
        partitions: empty with an error.
        topic_id: 16 bytes; None: unknown, or the brokers have no ids.
        error_code: the topic's; 0: none.
    """

    partitions: Partitions
    topic_id: bytes | None = None
    error_code: int = 0


_UNKNOWN: Final = TopicState(NO_PARTITIONS)


class ClusterUpdate(NamedTuple):
    """The part of a metadata response that a snapshot takes over."""

    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicState]


class Cluster:
    """Nodes, topics and partitions at one moment. Immutable: any thread, no lock, never blocks.

    A partition's leader is unknown (None) while it has none or while its node is not in the node
    set. Snapshots made from one another share what did not change, and making one costs next to
    nothing for what is shared.

    Args:
        update: everything that is known.
        is_bootstrap: nothing but addresses to start from.
        topics: those of ``update`` if they are such a map already.

    Source: Java's ``Cluster`` and ``MetadataSnapshot``.
    """

    __slots__ = ("_is_bootstrap", "_nodes", "_topics")

    def __init__(
        self,
        update: ClusterUpdate,
        *,
        is_bootstrap: bool = False,
        topics: TopicMap[TopicState] | None = None,
    ) -> None:
        self._nodes = update.nodes
        self._topics = TopicMap(update.topics) if topics is None else topics
        self._is_bootstrap = is_bootstrap

    @classmethod
    def empty(cls) -> Cluster:
        """An empty cluster: nothing is known."""
        return cls.bootstrap(())

    @classmethod
    def bootstrap(cls, nodes: Iterable[Node]) -> Cluster:
        """A cluster of which only the bootstrap addresses are known (contract P-H.5.1)."""
        by_id = {node.id: node for node in nodes}
        return cls(ClusterUpdate(by_id, {}), is_bootstrap=True)

    @property
    def is_bootstrap(self) -> bool:
        """True until the first answer of a broker."""
        return self._is_bootstrap

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every known node."""
        return tuple(self._nodes.values())

    def node(self, node_id: int) -> Node | None:
        """The node with this id, if known."""
        return self._nodes.get(node_id)

    @property
    def topics(self) -> frozenset[str]:
        """Topics with at least one known partition."""
        return frozenset(name for name, state in self._topics.items() if state.partitions)

    def error_code(self, topic: str) -> int:
        """Kafka's code of the error that the brokers told of a topic; 0: none."""
        return self._state(topic).error_code

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's 16-byte id; None if unknown, or if the brokers have no ids."""
        return self._state(topic).topic_id

    def partitions(self, topic: str) -> Partitions:
        """Partition metadata by partition number; empty for an unknown topic."""
        return self._state(topic).partitions

    def partition_count_for_topic(self, topic: str) -> int | None:
        """Number of known partitions; None for an unknown topic."""
        return len(self._state(topic).partitions) or None

    def leader_for(self, topic: str, partition: int) -> Node | None:
        """The leader's node, or None while it is unknown."""
        known = self.partitions(topic).get(partition)
        return None if known is None else self._leader(known)

    def leaders(self, topics: Iterable[str]) -> frozenset[int]:
        """Ids of the known nodes that lead partitions of these topics."""
        named = {known.leader_id for topic in topics for known in self.partitions(topic).values()}
        return frozenset(node_id for node_id in named if node_id >= 0 and node_id in self._nodes)

    def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Every known partition of the topic, by number; empty for an unknown topic (P-A.5.1)."""
        partitions = self.partitions(topic)
        return [self._info(topic, partitions[number]) for number in sorted(partitions)]

    def available_partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """The partitions of the topic that have a known leader, by number."""
        return [info for info in self.partitions_for_topic(topic) if info.leader is not None]

    def with_updates(self, update: ClusterUpdate, *, without: Iterable[str]) -> Cluster:
        """The snapshot after a partial response: ``update`` merged over this one.

        The nodes are the update's.

        Args:
            update: what the response holds, for the topics it names.
            without: topics that go, unless ``update`` has them.
        """
        gone: dict[str, TopicState | None] = dict.fromkeys(without)
        return Cluster(update, topics=self._topics.with_changes({**gone, **update.topics}))

    def with_leader_hint(
        self, hints: Iterable[LeaderHint], nodes: Iterable[Node]
    ) -> tuple[Cluster, list[LeaderHint]]:
        """The snapshot after leader hints, and the hints that were taken (contract P-H.6).

        A hint is taken if its epoch is newer than the partition's, its node is in ``nodes`` or
        known already, and the partition is known. ``nodes`` replace known ones of the same id,
        unless no hint is taken: then the snapshot is this one.
        """
        merged = {**self._nodes, **{node.id: node for node in nodes}}
        changed: dict[str, dict[int, MetadataResponsePartition]] = {}
        taken: list[LeaderHint] = []
        for hint in hints:
            partitions = changed.get(hint.topic) or self.partitions(hint.topic)
            known = partitions.get(hint.partition)
            if known is None or hint.leader_id < 0 or hint.leader_id not in merged:
                continue
            if hint.leader_epoch <= known.leader_epoch:
                continue
            if hint.topic not in changed:
                changed[hint.topic] = dict(partitions)
            changed[hint.topic][hint.partition] = known._replace(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            )
            taken.append(hint)
        if not taken:
            return self, []
        topics = {
            name: self._state(name)._replace(partitions=MappingProxyType(partitions))
            for name, partitions in changed.items()
        }
        update = ClusterUpdate(merged, topics)
        return self.with_updates(update, without=()), taken

    def changed_topics(self, older: Cluster) -> frozenset[str]:
        """Topics of this snapshot whose partitions, leaders or id differ from those in ``older``.

        A leader that left the node set, or came back, differs although the partition does not.
        """
        changed = set()
        for name in self._topics.differing(older._topics):
            new, old = self._state(name), older._state(name)
            if new.partitions and (
                old.partitions is not new.partitions or old.topic_id != new.topic_id
            ):
                changed.add(name)
        come_or_gone = self._nodes.keys() ^ older._nodes.keys()
        if come_or_gone:
            for name, state in self._topics.items():
                if any(known.leader_id in come_or_gone for known in state.partitions.values()):
                    changed.add(name)
        return frozenset(changed)

    def removed_topics(self, older: Cluster) -> frozenset[str]:
        """Topics with known partitions in ``older``, and with none here."""
        return frozenset(
            name
            for name in self._topics.differing(older._topics)
            if older.partitions(name) and not self.partitions(name)
        )

    def _state(self, topic: str) -> TopicState:
        return self._topics.get(topic) or _UNKNOWN

    def _info(self, topic: str, known: MetadataResponsePartition) -> PartitionInfo:
        return PartitionInfo(
            topic,
            known.partition_index,
            self._leader(known),
            self._nodes_of(known.replica_nodes),
            self._nodes_of(known.isr_nodes),
            self._nodes_of(known.offline_replicas),
        )

    def _leader(self, known: MetadataResponsePartition) -> Node | None:
        # -1 stands for "no leader" here, and for the first bootstrap address among the nodes.
        return self.node(known.leader_id) if known.leader_id >= 0 else None

    def _nodes_of(self, node_ids: Sequence[int]) -> tuple[Node, ...]:
        # A replica on a broker that is down is not in the node set: it keeps its id alone.
        return tuple([self.node(node_id) or Node(node_id, "", -1) for node_id in node_ids])
