"""One partition: who leads it, who is in sync, and its log."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import AppendInfo, Log

if TYPE_CHECKING:
    from typing_extensions import Buffer

NO_NODE = -1


class PartitionDeleted(LookupError):
    """The topic has just been deleted."""


class Partition:
    """A partition as all nodes see it: they share one log.

    Any thread. `lock` stands around appends and changes of the leader; reads take no lock. It is
    hashable by identity, so that a topic that was deleted and made again has other partitions.

    Attributes:
        leader: id of the node that leads it; -1: none.
        leader_epoch: grows with each change of the leader and each restart (B-C8.6).
        replicas: nodes that are said to have a copy; the leader is one of them.
        isr: replicas that are up, in their order: all share one log, so that each has all of it.
        is_deleted: its topic is gone; nothing is appended any more.

    Args:
        topic: its topic's name.
        index: its number in the topic.
        log: its records.
        replicas: nodes, the preferred leader first; one or more.
        leader_epoch: the first.
        live: nodes that are up; the first replica among them leads. None: all are.
    """

    __slots__ = (
        "index",
        "is_deleted",
        "isr",
        "leader",
        "leader_epoch",
        "lock",
        "log",
        "min_isr",
        "replicas",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        log: Log,
        replicas: Sequence[int],
        leader_epoch: int = 0,
        live: Collection[int] | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.lock = threading.Lock()
        self.replicas = list(replicas)
        self.isr = list(replicas)
        self.min_isr = 1
        self.leader = replicas[0]
        if live is not None:
            self._sync_isr(live)
            self.leader = self.isr[0] if self.isr[0] in live else NO_NODE
        self.leader_epoch = leader_epoch
        self.is_deleted = False

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader {self.leader}/{self.leader_epoch})"

    def append(
        self, batch: Buffer, info: BatchInfo | None = None, is_verified: bool = False
    ) -> AppendInfo:
        """Append one batch; it is copied or written before this returns.

        Args:
            batch: writable.
            info: the result of `log.validate`; None: it is validated now.
            is_verified: the coordinator knows the partition to be in the producer's transaction.

        Raises:
            LogError: the log refuses it; nothing was appended.
            PartitionDeleted: the topic has been deleted.
        """
        with self.lock:
            if self.is_deleted:
                raise PartitionDeleted(f"{self.topic}-{self.index} was deleted")
            return self.log.append(batch, self.leader_epoch, info, is_verified)

    def append_marker(self, marker: EndTransactionMarker) -> AppendInfo:
        """End a transaction; see `Log.append_marker`.

        Raises:
            LogError: the log refuses it; nothing was appended.
            PartitionDeleted: the topic has been deleted.
        """
        with self.lock:
            if self.is_deleted:
                raise PartitionDeleted(f"{self.topic}-{self.index} was deleted")
            return self.log.append_marker(marker, self.leader_epoch)

    def move_leader(self, node_id: int, live: Collection[int]) -> int:
        """Let another node lead it, or none (-1); returns the new leader epoch.

        All nodes share one log: a node that had no replica takes the old leader's place.

        Args:
            node_id: it may be down; then it is not in sync.
            live: nodes that are up.
        """
        with self.lock:
            if node_id != NO_NODE:
                self.replicas = _with(self.replicas, node_id, self.leader)
            self._sync_isr(live)
            self.leader = node_id
            self.leader_epoch += 1
            return self.leader_epoch

    def sync_isr(self, live: Collection[int]) -> None:
        """Note which nodes are up now."""
        with self.lock:
            self._sync_isr(live)

    def _sync_isr(self, live: Collection[int]) -> None:
        in_sync = [each for each in self.replicas if each in live]
        # The last one stays in sync, as with Kafka's unclean elections off.
        self.isr = in_sync or self.isr[:1]

    def delete(self, removes_files: bool = True) -> None:
        """Refuse more records, and delete those it has: see `Log.delete`.

        Raises:
            LogError: its files cannot be removed.
        """
        with self.lock:
            self.is_deleted = True
            self.log.delete(removes_files)

    def close(self) -> None:
        """Close its log."""
        with self.lock:
            self.log.close()


def _with(nodes: list[int], node_id: int, replaced: int) -> list[int]:
    """`nodes` with `node_id` among them; if it is missing, it takes the place of `replaced`."""
    if node_id in nodes:
        return nodes
    if replaced in nodes:
        return [node_id if each == replaced else each for each in nodes]
    return [node_id, *nodes[1:]]
