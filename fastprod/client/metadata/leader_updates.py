"""LeaderUpdates: hands the engine who leads which partition (contract P-H.1, P-H.6)."""

from __future__ import annotations

from collections.abc import Callable

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.client.engine_view import EngineView
from fastprod.client.metadata.cluster import LeaderHint
from fastprod.client.metadata.metadata import Metadata, MetadataChanges
from fastprod.records import Node


class LeaderUpdates:
    """From metadata, and from the hints in Produce answers, to the engine.

    Used by the control thread.

    Args:
        engine: gets them.
        metadata: knows the leaders, and takes the hints.
        slot_of: the engine's number for a node id.
    """

    def __init__(
        self, engine: EngineView, metadata: Metadata, slot_of: Callable[[int], int]
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._slot_of = slot_of
        self._hints: list[LeaderHint] = []
        self._hint_nodes: dict[int, Node] = {}

    def apply(self, changes: MetadataChanges) -> None:
        """Hand over what an answer changed."""
        for topic in changes.changed_topics:
            self._apply_topic(topic)
        for topic in changes.forgotten_topics:  # if one has records still, it is asked for again
            self._engine.forget_leaders(topic)
        self._engine.metadata_seen()

    def _apply_topic(self, topic: str) -> None:
        """Hand a topic's id and leaders to the engine."""
        cluster = self._metadata.cluster
        known = cluster.partitions(topic)
        if not known:
            return
        leaders = [(-1, -1, -1)] * (max(known) + 1)
        for index, partition in known.items():
            leader = cluster.node(partition.leader_id) if partition.leader_id >= 0 else None
            leaders[index] = (
                -1 if leader is None else self._slot_of(leader.id),
                partition.leader_epoch,
                partition.leader_id,
            )
        self._engine.set_topic(topic, cluster.topic_id(topic) or bytes(16), leaders)

    def add_hint(self, event: ControlEvent) -> None:
        """Keep a hint (ON_LEADER_HINT) for the next look: those of one answer come together."""
        assert event.topic is not None
        self._hints.append(
            LeaderHint(event.topic, event.partition, event.node_id, event.leader_epoch)
        )
        if event.data is not None:
            host = event.data.decode("utf-8", "replace")
            self._hint_nodes[event.node_id] = Node(event.node_id, host, event.port)

    def apply_hints(self) -> None:
        """Take the hints there are (KIP-951), and hand over what they change."""
        if not self._hints:
            return
        hints, nodes = self._hints, self._hint_nodes
        self._hints, self._hint_nodes = [], {}
        leaders: dict[str, list[tuple[int, int, int, int]]] = {}
        for topic, partition, leader_id, epoch in self._metadata.apply_leader_hints(
            hints, nodes.values()
        ):
            told = (partition, self._slot_of(leader_id), epoch, leader_id)
            leaders.setdefault(topic, []).append(told)
        for topic, changed in leaders.items():
            self._engine.set_leaders(topic, changed)
