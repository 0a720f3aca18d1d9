"""WarmTopics: the topics of `warmup_topics`, each until its leaders have been connected to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from fastprod.client.metadata.cluster import Cluster
from fastprod.records import Node


class FollowedCluster(Protocol):
    """What is asked of the metadata."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def update_version(self) -> int: ...
    def add_many(self, topics: Iterable[str], now_ms: int) -> None: ...


_NEVER: Final = -1


class WarmTopics:
    """Has the first metadata request ask for topics, and tells their leaders, each topic's once.

    What fails is tried again by the first record that needs it, and no sooner; metadata alone is
    asked for until it comes, as for any topic. Used by the control thread.

    Args:
        topics: their names; they are followed at once.
        metadata: follows them, and knows their leaders.
        now_ms: the time.
    """

    def __init__(self, topics: Sequence[str], metadata: FollowedCluster, now_ms: int) -> None:
        self._metadata = metadata
        self._left = dict.fromkeys(topics)
        self._seen_version = _NEVER
        if topics:
            metadata.add_many(topics, now_ms)

    def take_leaders(self) -> list[Node]:
        """The leaders of the topics that have become known since the last call."""
        version = self._metadata.update_version
        if not self._left or version == self._seen_version:
            return []
        self._seen_version = version
        cluster = self._metadata.cluster
        known = [topic for topic in self._left if cluster.partitions(topic)]
        for topic in known:
            del self._left[topic]
        leaders = (cluster.node(node_id) for node_id in sorted(cluster.leaders(known)))
        return [leader for leader in leaders if leader is not None]
