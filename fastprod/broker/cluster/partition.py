"""One partition: who leads it, who is in sync, and its log."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fastprod._core.log.batch_validator import BatchInfo
from fastprod.broker.cluster.decision import NO_NODE, Decision
from fastprod.broker.cluster.reassignment import begun, completed, reverted
from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import AppendInfo, Log
from fastprod.error_codes import NONE

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "NO_NODE",
    "AppendedAt",
    "Decision",
    "NotEnoughReplicas",
    "NotLeader",
    "Partition",
    "PartitionDeleted",
    "SavedPartition",
]


class SavedPartition(NamedTuple):
    """What is kept of a partition over a restart, besides its log.

    Attributes:
        replicas: the preferred leader first.
        leader_epoch: the newest.
        isr: replicas in sync; None: all, they share one log.
        adding: replicas that a reassignment adds.
        removing: replicas that go at its end.
    """

    replicas: list[int]
    leader_epoch: int
    isr: list[int] | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def among(self, node_ids: Collection[int]) -> SavedPartition:
        """The same without nodes that there are no more."""
        return self._replace(
            replicas=[each for each in self.replicas if each in node_ids],
            adding=tuple(each for each in self.adding if each in node_ids),
            removing=tuple(each for each in self.removing if each in node_ids),
        )


class AppendedAt(NamedTuple):
    """An append as `Partition.error_of_append` is asked about it.

    Attributes:
        node_id: node that led.
        leader_epoch: its own at that time.
        end_offset: after the last record.
    """

    node_id: int
    leader_epoch: int
    end_offset: int


class PartitionDeleted(LookupError):
    """The topic has just been deleted."""


class NotLeader(LookupError):
    """The node that was asked does not lead the partition any more."""


class NotEnoughReplicas(Exception):
    """Fewer replicas are in sync than `min.insync.replicas` says.

    Attributes:
        count: how many are.
        needed_count: how many there must be.
    """

    def __init__(self, count: int, needed_count: int) -> None:
        super().__init__(f"{count} in sync, {needed_count} needed")
        self.count = count
        self.needed_count = needed_count


class Partition:
    """A partition as all nodes see it: they share one log.

    With several replicas it is a `ReplicatedPartition`, and each of them has its own.

    Any thread. `lock` stands around appends and changes of the leader; reads take no lock. It is
    hashable by identity, so that a topic that was deleted and made again has other partitions.

    Attributes:
        leader: id of the node that leads it; -1: none.
        leader_epoch: grows with each change of the leader and each restart (B-C8.6).
        replicas: nodes that are said to have a copy; the leader is one of them.
        isr: replicas that are up, in their order: all share one log, so that each has all of it.
        adding: replicas that a reassignment adds, while it is under way.
        removing: replicas that go at its end.
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
        "_min_isr_setting",
        "adding",
        "index",
        "is_deleted",
        "isr",
        "leader",
        "leader_epoch",
        "lock",
        "log",
        "min_isr",
        "removing",
        "replicas",
        "topic",
    )

    is_replicated = False
    """Whether each replica has a log of its own."""

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
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.min_isr = self._min_isr_setting = 1
        self.leader = replicas[0]
        if live is not None:
            self.isr = self._in_sync(self.replicas, live)
            self.leader = self.isr[0] if self.isr[0] in live else NO_NODE
        self.leader_epoch = leader_epoch
        self.is_deleted = False

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader {self.leader}/{self.leader_epoch})"

    def begin(self, leader_epoch: int) -> None:
        """Let the leader lead, with that epoch; once, before anybody can find the partition."""
        self.leader_epoch = leader_epoch

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in its log; -1: none."""
        return self.log.latest_epoch

    def decided(self) -> Decision:
        """What the controller decided last."""
        return Decision(
            self.leader, self.leader_epoch, self.replicas, self.isr, self.adding, self.removing
        )

    def saved(self, decision: Decision | None = None) -> SavedPartition:
        """What is kept of it over a restart: as it is, or once a decision holds."""
        found = decision or self.decided()
        return SavedPartition(
            found.replicas, found.leader_epoch, None, found.adding, found.removing
        )

    def logs(self) -> list[Log]:
        """All of its logs."""
        return [self.log]

    def leads(self, node_id: int) -> bool:
        """Whether a node believes that it leads."""
        return self.leader == node_id

    def log_at(self, node_id: int) -> Log:
        """The log that a node has."""
        return self.log

    def epoch_at(self, node_id: int) -> int:
        """The leader epoch that a node knows."""
        return self.leader_epoch

    def is_settled_at(self, node_id: int) -> bool:
        """Whether a node that leads knows where its high watermark is (KIP-207)."""
        return True

    def check_isr(self, node_id: int) -> None:
        """Refuse if a node that leads has fewer replicas in sync than `min.insync.replicas` says.

        Raises:
            NotEnoughReplicas: it has.
        """
        if len(self.isr) < self.min_isr:
            raise NotEnoughReplicas(len(self.isr), self.min_isr)

    def append_at(
        self,
        node_id: int,
        batch: Buffer,
        info: BatchInfo | None,
        needs_isr: bool,
        is_verified: bool = False,
    ) -> tuple[AppendInfo, int]:
        """Append one batch to the log of the node that leads; its leader epoch comes with it.

        Args:
            node_id: which node.
            batch: as `append`.
            info: as `append`.
            needs_isr: whether to look again at what `check_isr` was asked before.
            is_verified: as `append`.

        Raises:
            NotEnoughReplicas: as `check_isr`.
            NotLeader: the node does not lead it.
            LogError, PartitionDeleted: as `append`.
        """
        # Not by `append`: every request comes this way.
        with self.lock:
            if self.is_deleted:
                raise PartitionDeleted(f"{self.topic}-{self.index} was deleted")
            epoch = self.leader_epoch
            return self.log.append(batch, epoch, info, is_verified), epoch

    def error_of_append(self, node_id: int, epoch: int, end_offset: int) -> int | None:
        """What becomes of an append with acks=all; None: replicas in sync do not have it yet.

        Args:
            node_id: node that was asked.
            epoch: its leader epoch at that time.
            end_offset: after its last record.
        """
        return NONE

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
        return self.append_at(self.leader, batch, info, False, is_verified)[0]

    def append_replicated(self, batch: Buffer, info: BatchInfo | None = None) -> AppendedAt:
        """Append a batch of a coordinator, which waits for nobody; see `append`.

        Returns:
            What `error_of_append` is asked with: whether the replicas in sync have it.

        Raises:
            NotEnoughReplicas: as `check_isr`.
            LogError, PartitionDeleted: as `append`.
        """
        self.check_isr(self.leader)
        done, epoch = self.append_at(self.leader, batch, info, False, is_verified=True)
        return AppendedAt(self.leader, epoch, done.last_offset + 1)

    def append_marker(self, marker: EndTransactionMarker) -> AppendedAt:
        """End a transaction; see `Log.append_marker`.

        Returns:
            What `error_of_append` is asked with: whether the replicas in sync have it.

        Raises:
            LogError: the log refuses it; nothing was appended.
            PartitionDeleted: the topic has been deleted.
        """
        with self.lock:
            if self.is_deleted:
                raise PartitionDeleted(f"{self.topic}-{self.index} was deleted")
            done = self.log.append_marker(marker, self.leader_epoch)
            return AppendedAt(self.leader, self.leader_epoch, done.last_offset + 1)

    def reconfigure(self, config: TopicConfig) -> None:
        """Have other settings of its topic hold."""
        self._min_isr_setting = config.number("min.insync.replicas")
        self._limit_min_isr()
        for log in self.logs():
            log.reconfigure(config.log_config())

    def delete_records_at(self, node_id: int, offset: int) -> int:
        """Delete what lies before an offset; where the log begins then.

        Args:
            node_id: node that was asked.
            offset: the first that stays; -1: the high watermark.

        Raises:
            NotLeader: the node does not lead it.
            OffsetOutOfRange: as `Log.delete_records`.
            LogError: the files cannot be changed (56).
        """
        with self.lock:
            if self.is_deleted or not self.leads(node_id):
                raise NotLeader(f"node {node_id} does not lead {self.topic}-{self.index}")
            log = self.log_at(node_id)
            return log.delete_records(log.high_watermark if offset == -1 else offset)

    # What the controller decides. Nothing here changes who leads but `take`, after the decision is
    # written down; the controller's lock is held from the plan to there.

    def plan_leader(self, node_id: int, live: Collection[int]) -> Decision:
        """Let another node lead it, or none (-1).

        All nodes share one log: a node that had no replica takes the old leader's place.

        Args:
            node_id: it may be down; then it is not in sync.
            live: nodes that are up.

        Raises:
            ValueError: of a partition with replicas: the node cannot lead.
        """
        replicas = self.replicas
        if node_id != NO_NODE:
            replicas = _with(replicas, node_id, self.leader)
        isr = self._in_sync(replicas, live)
        return self.decided()._replace(
            leader=node_id, leader_epoch=self.leader_epoch + 1, replicas=replicas, isr=isr
        )

    def plan_up(self, node_id: int, live: Collection[int]) -> Decision | None:
        """What changes because a node is up; None: nothing."""
        if self.leader == NO_NODE and node_id in self.replicas:
            return completed(self.plan_leader(node_id, live), live)
        if not self.adding and not self.removing:
            return None
        now = self.decided()._replace(isr=self._in_sync(self.replicas, live))
        done = completed(now, live)
        return None if done is now else done

    def plan_down(
        self, node_id: int, live: Collection[int], up: Collection[int], moves_leader: bool
    ) -> Decision | None:
        """What changes because a node is down; None: nothing.

        Args:
            node_id: which.
            live: nodes that may lead.
            up: nodes that serve.
            moves_leader: let another node lead; else none does until it is back.
        """
        if self.leader != node_id:
            return None
        return self.plan_leader(self._heir(up) if moves_leader else NO_NODE, live)

    def plan_reassigned(self, target: Sequence[int], live: Collection[int]) -> Decision:
        """Have other nodes be the replicas, once they have all of it.

        All nodes share one log: nodes that are up have all of it now.

        Args:
            target: the preferred leader first.
            live: nodes that may lead.
        """
        now = begun(self.decided(), target)
        return completed(now._replace(isr=self._in_sync(now.replicas, live)), live)

    def plan_reverted(self, live: Collection[int]) -> Decision | None:
        """Cancel the reassignment under way; None: none of the replicas before is in sync."""
        return reverted(self.decided(), live)

    def take(self, decision: Decision) -> None:
        """Have a decision hold, which is written down, and tell the nodes."""
        with self.lock:
            self._note(decision)

    def undecided(self) -> None:
        """What was planned cannot be written down, and does not hold."""

    def _note(self, decision: Decision) -> None:
        self.leader, self.leader_epoch, self.replicas, self.isr = decision[:4]
        self.adding, self.removing = decision[4:]
        self._limit_min_isr()

    def _limit_min_isr(self) -> None:
        # As in Kafka: with fewer replicas no append with acks=all could succeed.
        self.min_isr = min(self._min_isr_setting, len(self.replicas))

    def _heir(self, up: Collection[int]) -> int:
        """A replica that is up or, since all nodes share one log, any node; -1: none is up."""
        for node_id in self.replicas:
            if node_id in up:
                return node_id
        others = list(up)
        return others[self.index % len(others)] if others else NO_NODE

    def sync_isr(self, live: Collection[int]) -> None:
        """Note which nodes are up now, without a decision."""
        with self.lock:
            self.isr = self._in_sync(self.replicas, live)

    def _in_sync(self, replicas: list[int], live: Collection[int]) -> list[int]:
        in_sync = [each for each in replicas if each in live]
        # The last one stays in sync, as with Kafka's unclean elections off.
        return in_sync or self.isr[:1]

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


def close_all(partitions: Iterable[Partition]) -> None:
    """Close the log of each, even if closing another one fails.

    Raises:
        BaseException: the first error, or the first interrupt; a note says how many others failed.
    """
    failures: list[BaseException] = []
    for partition in partitions:
        try:
            partition.close()
        except BaseException as error:
            failures.append(error)
    if failures:
        interrupts = [each for each in failures if not isinstance(each, Exception)]
        raised = (interrupts or failures)[0]
        if len(failures) > 1:
            others = [each for each in failures if each is not raised]
            raised.add_note(f"{len(others)} more logs could not be closed; first: {others[0]!r}")
        raise raised


def _with(nodes: list[int], node_id: int, replaced: int) -> list[int]:
    """`nodes` with `node_id` among them; if it is missing, it takes the place of `replaced`."""
    if node_id in nodes:
        return nodes
    if replaced in nodes:
        return [node_id if each == replaced else each for each in nodes]
    return [node_id, *nodes[1:]]
