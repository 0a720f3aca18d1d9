"""LeaderEpochs: which partition metadata is newer than what we have (contract P-H.4)."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from fastprod.client.metadata.cluster import Partitions
from fastprod.client.metadata.metadata_answer import NO_EPOCH, NO_TOPIC_ID
from fastprod.protocol.messages.metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Accepted(NamedTuple):
    """What is left of a topic's answer after the rules.

    Attributes:
        partitions: the topic's partitions; the very object given as ``known`` if nothing changed.
        has_news: a newer or first epoch, a new topic id, or an epoch that cannot be relied upon.
    """

    partitions: Partitions
    has_news: bool


class LeaderEpochs:
    """The newest leader epoch seen of every partition of the topics we follow.

    Brokers learn of a new leader one after the other, so an answer may be older than the one
    before it: the epoch tells (KIP-320). Not locked: its owner, ``Metadata``, is.
    """

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, int]] = {}

    def last_seen(self, topic: str, partition: int) -> int | None:
        """The newest epoch; None if none is known for sure."""
        epochs = self._by_topic.get(topic)
        return None if epochs is None else epochs.get(partition)

    def see(self, topic: str, partition: int, leader_epoch: int) -> None:
        """Note an epoch that is known to be newer."""
        self._by_topic.setdefault(topic, {})[partition] = leader_epoch

    def forget(self, topic: str) -> None:
        """Forget a topic that is no longer followed (P-H.4.5)."""
        self._by_topic.pop(topic, None)

    def accept(
        self, name: str, topic: MetadataResponseTopic, known: Partitions, known_id: bytes | None
    ) -> Accepted:
        """Choose between an answer and what is known, partition by partition (P-H.4.1, P-H.4.2).

        Args:
            name: the topic.
            topic: the answer for it.
            known: the topic's partitions so far.
            known_id: the topic's id so far.
        """
        epochs = self._by_topic.setdefault(name, {})
        is_remade = topic.topic_id not in (NO_TOPIC_ID, known_id)
        accepted: dict[int, MetadataResponsePartition] = {}
        has_news = False
        for partition in topic.partitions:
            number, epoch = partition.partition_index, partition.leader_epoch
            if epoch == NO_EPOCH:
                epochs.pop(number, None)
                accepted[number] = partition
                has_news = True
                continue
            last = epochs.get(number)
            if last is None or is_remade or epoch > last:
                epochs[number] = epoch
                has_news = True
            elif epoch < last:
                if number in known:
                    accepted[number] = known[number]
                continue
            accepted[number] = partition
        return Accepted(known if accepted == known else MappingProxyType(accepted), has_news)
