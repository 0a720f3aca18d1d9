"""GroupOffsets: how far a group has read, and what open transactions say about it (B-E2, B-E4).

Source: OffsetMetadataManager of Apache Kafka (pendingTransactionalOffsets, KIP-447).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata, TopicPartition

UNSTABLE: Final = OffsetAndMetadata(-1, -1, "", -1)
"""What is told of a partition that an open transaction says something about."""


class _Pending(NamedTuple):
    """What an open transaction says about a partition, and how many others had come before."""

    order: int
    offset: OffsetAndMetadata


class GroupOffsets:
    """The offsets of one group. The caller has its lock.

    What was written down last counts, whichever transaction ends last: compaction keeps that alone.

    Attributes:
        committed: what counts.
    """

    __slots__ = ("_order", "_pending", "committed")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._order = 0
        # By producer id. None: something newer has been committed.
        self._pending: dict[int, dict[TopicPartition, _Pending | None]] = {}

    def __contains__(self, place: TopicPartition) -> bool:
        """Whether anything is kept about a partition."""
        return place in self.committed or self.is_pending(place)

    def places(self) -> list[TopicPartition]:
        """The partitions that something is kept about."""
        pending = (place for each in self._pending.values() for place in each)
        return list(dict.fromkeys([*self.committed, *pending]))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not self.committed and not self._pending

    @property
    def has_pending(self) -> bool:
        """Whether an open transaction says something about it."""
        return bool(self._pending)

    def is_pending(self, place: TopicPartition) -> bool:
        """Whether an open transaction says something about a partition."""
        return any(place in each for each in self._pending.values())

    def newest_ms(self, place: TopicPartition) -> int:
        """When something was said last about a partition; -1: nothing is kept."""
        said = [each[place] for each in self._pending.values() if place in each]
        times = [each.offset.commit_timestamp_ms for each in said if each is not None]
        if place in self.committed:
            times.append(self.committed[place].commit_timestamp_ms)
        return max(times, default=-1)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Take offsets that count at once; what open transactions say is older."""
        self.committed.update(offsets)
        for pending in self._pending.values():
            pending.update(dict.fromkeys(pending.keys() & offsets.keys()))

    def add_pending(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Take offsets that count once the producer's transaction is committed."""
        pending = self._pending.setdefault(producer_id, {})
        for place, each in offsets.items():
            self._order += 1
            pending[place] = _Pending(self._order, each)

    def end_transaction(self, producer_id: int, is_commit: bool) -> bool:
        """Decide what a producer's transaction says; whether it said anything."""
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return False
        for place, each in pending.items() if is_commit else ():
            if each is not None:
                self.committed[place] = each.offset
                self._outdate(place, each.order)
        return True

    def _outdate(self, place: TopicPartition, order: int) -> None:
        """Have nothing count that other open transactions said about a partition before."""
        for pending in self._pending.values():
            other = pending.get(place)
            if other is not None and other.order < order:
                pending[place] = None

    def remove(self, place: TopicPartition) -> None:
        """Forget a partition, also what open transactions say about it."""
        self.committed.pop(place, None)
        for pending in self._pending.values():
            pending.pop(place, None)

    def clear(self) -> None:
        """Forget everything."""
        self.committed.clear()
        self._pending.clear()
