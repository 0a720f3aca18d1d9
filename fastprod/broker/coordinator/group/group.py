"""Group: what groups of all kinds have in common, and what somebody who commits says of itself.

Source: Group of Apache Kafka (org.apache.kafka.coordinator.group); contract B-E2, B-E3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.coordinator.group.group_offsets import GroupOffsets
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata, TopicPartition
from fastprod.broker.log.record_batch import NO_PRODUCER, LogEntry, Producer
from fastprod.broker.threads.deferring_lock import DeferringLock

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of those that read topics."""


class Committing(NamedTuple):
    """Who commits what.

    Attributes:
        group_id: "" is a name, too.
        generation_id: or the member's epoch; -1: somebody who is no member, as an administrator.
        member_id: "": likewise.
        group_instance_id: of a static member.
        offsets: by partition.
        knows_epochs: the version of the request knows groups that the broker assigns (KIP-848),
            and is told if there is no such group.
        producer: they count once its transaction is committed; by default at once.
        partitions: as they were found; a topic that is deleted meanwhile gets no offset.
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    knows_epochs: bool = False
    producer: Producer = NO_PRODUCER
    partitions: Mapping[TopicPartition, Partition] = {}

    @property
    def is_transactional(self) -> bool:
        """Whether they belong to a transaction."""
        return self.producer is not NO_PRODUCER

    @property
    def names_nobody(self) -> bool:
        """Whether it says nothing of itself."""
        return self.generation_id < 0 and not self.member_id and self.group_instance_id is None

    def is_gone(self, place: TopicPartition) -> bool:
        """Whether the topic was deleted after it was found."""
        found = self.partitions.get(place)
        return found is not None and found.is_deleted


class Group(ABC):
    """One group. All but `group_id`, `partition` and `lock` is guarded by `lock`.

    Attributes:
        kind: Kafka's name for its type.
        group_id: its name.
        partition: of __consumer_offsets, where it is kept.
        offsets: how far it has read.
    """

    __slots__ = ("group_id", "lock", "offsets", "partition")

    kind: ClassVar[str]

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        offsets: GroupOffsets,
        lock: DeferringLock | None = None,
    ) -> None:
        self.group_id = group_id
        self.partition = partition
        self.lock = DeferringLock() if lock is None else lock
        self.offsets = offsets

    @property
    def key(self) -> str:
        """Its name, as `PartitionedState` asks for it."""
        return self.group_id

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether it is kept no more."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    @abstractmethod
    def is_unused(self) -> bool:
        """Whether nobody is in it or about to come."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """What it is doing, in Kafka's words."""

    @property
    @abstractmethod
    def protocol(self) -> str:
        """The type of protocol of its members; "": it never had any."""

    @property
    @abstractmethod
    def is_consumer_group(self) -> bool:
        """Whether its members read topics."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as that can be known."""

    @abstractmethod
    def check_commit(self, committing: Committing) -> dict[TopicPartition, int]:
        """The partitions whose offsets it may not commit, and why.

        Raises:
            CoordinatorError: it may commit none.
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Look whether somebody may ask for offsets as a member.

        Raises:
            CoordinatorError: it may not.
        """

    @abstractmethod
    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Partitions whose offsets have been kept long enough (KIP-211)."""

    @abstractmethod
    def live_entries(self) -> list[LogEntry]:
        """The records that say what it is now, but for its offsets."""

    @abstractmethod
    def tombstones(self) -> list[LogEntry]:
        """The records that say that it is no more, but for its offsets."""
