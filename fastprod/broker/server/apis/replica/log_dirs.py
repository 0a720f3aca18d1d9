"""DescribeLogDirs: where a node keeps its logs, and how large they are (KIP-113, KIP-827)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.error_codes import CLUSTER_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR, NONE
from fastprod.protocol.messages.replica.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

IN_MEMORY: Final = "memory"
"""What stands for the folder of a node that has none."""

# No log lies behind its own high watermark, and none is to take another's place.
_NO_LAG: Final = 0


class DescribeLogDirsApi:
    """Handles DescribeLogDirs. Any thread.

    A node tells of the logs that it has; one that all nodes share is told by its replicas, in the
    folder of node 0.

    Args:
        topics: where the partitions are.
        folder_of: where a node keeps its logs; None: in memory.
    """

    def __init__(self, topics: Topics, folder_of: Callable[[int], Path] | None) -> None:
        self._topics = topics
        self._folder_of = folder_of

    def handle(self, call: Call[DescribeLogDirsRequest]) -> None:
        """Answer with folders and sizes; a partition that is not here is left out."""
        if not call.allows_cluster(Operation.DESCRIBE):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        asked = call.message.topics
        wanted = None
        if asked is not None:
            wanted = {(topic.topic, index) for topic in asked for index in topic.partitions}
        node_id = call.node_id
        own, shared = self._name(node_id), self._name(0)
        # A node has a folder without logs, too.
        logs: dict[str, dict[str, list[DescribeLogDirsPartition]]] = {own: {}}
        for partition in self._partitions(None if wanted is None else {name for name, _ in wanted}):
            place = (partition.topic, partition.index)
            if node_id in partition.replicas and (wanted is None or place in wanted):
                folder = logs.setdefault(own if partition.is_replicated else shared, {})
                size_bytes = partition.log_at(node_id).size_bytes
                found = DescribeLogDirsPartition(partition.index, size_bytes, _NO_LAG, False)
                folder.setdefault(partition.topic, []).append(found)
        call.answer(
            DescribeLogDirsResponse(
                error_code=NONE,
                results=[self._result(name, topics) for name, topics in logs.items()],
            )
        )

    def refuse(self, call: Call[DescribeLogDirsRequest], code: int, text: str | None) -> None:
        """Answer with `code` and without a folder."""
        call.answer(DescribeLogDirsResponse(error_code=code, results=[]))

    def _partitions(self, names: set[str] | None) -> Iterable[Partition]:
        topics = self._topics.all() if names is None else map(self._topics.get, sorted(names))
        for topic in topics:
            if topic is not None:
                yield from (each for each in topic.partitions if not each.is_deleted)

    def _name(self, node_id: int) -> str:
        return IN_MEMORY if self._folder_of is None else str(self._folder_of(node_id).absolute())

    def _result(
        self, name: str, topics: dict[str, list[DescribeLogDirsPartition]]
    ) -> DescribeLogDirsResult:
        total_bytes = usable_bytes = -1
        if self._folder_of is not None:
            try:
                # Every node's folder is in it, or will be.
                volume = os.statvfs(self._folder_of(0))
            except OSError:
                return DescribeLogDirsResult(
                    error_code=KAFKA_STORAGE_ERROR, log_dir=name, topics=[]
                )
            total_bytes = volume.f_blocks * volume.f_frsize
            usable_bytes = volume.f_bavail * volume.f_frsize
        return DescribeLogDirsResult(
            error_code=NONE,
            log_dir=name,
            topics=[
                DescribeLogDirsTopic(name=topic, partitions=found)
                for topic, found in topics.items()
            ],
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
        )
