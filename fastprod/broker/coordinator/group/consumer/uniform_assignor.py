"""The assignor `uniform`: members have as many partitions as others, and keep what they have.

Balance comes first, then that as little as possible moves.

Source: UniformAssignor of Apache Kafka 4.x, with its builders for homogeneous and heterogeneous
groups; contract B-E3.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from fastprod.broker.coordinator.group.consumer.consumer_group_member import Assignment
from fastprod.broker.coordinator.group.consumer.group_spec import GroupSpec

NAME = "uniform"

# Members with different, overlapping topics: each round about halves what is out of balance.
_MOST_ROUNDS: Final = 16

_Partitions = dict[bytes, set[int]]
"""Of one member, while they are being shared."""


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Share the partitions of all topics among the members that read them."""
    shares = _share_alike(spec) if spec.is_homogeneous else _Balance(spec).shares()
    return {
        member_id: {topic_id: frozenset(each) for topic_id, each in share.items() if each}
        for member_id, share in shares.items()
    }


def _kept(spec: GroupSpec) -> dict[str, _Partitions]:
    """What each member has and may keep."""
    return {
        member_id: {
            topic_id: {each for each in partitions if each < spec.partition_counts[topic_id]}
            for topic_id, partitions in member.assignment.items()
            if topic_id in member.topic_ids
        }
        for member_id, member in spec.members.items()
    }


def _free(spec: GroupSpec, shares: dict[str, _Partitions]) -> dict[bytes, list[int]]:
    """The partitions that nobody has, of topics that somebody reads."""
    taken: _Partitions = defaultdict(set)
    for share in shares.values():
        for topic_id, partitions in share.items():
            taken[topic_id] |= partitions
    return {
        topic_id: [each for each in range(count) if each not in taken[topic_id]]
        for topic_id, count in spec.partition_counts.items()
    }


def _share_alike(spec: GroupSpec) -> dict[str, _Partitions]:
    """All members read the same topics: each has its quota, some of them one more."""
    shares = _kept(spec)
    free = [
        (topic_id, each)
        for topic_id, partitions in _free(spec, shares).items()
        for each in partitions
    ]
    if not shares:
        return shares
    quota, larger = divmod(sum(spec.partition_counts.values()), len(shares))
    quotas = {}
    # Those that have more than others keep the one too many.
    for member_id in sorted(shares, key=lambda id: -_size(shares[id])):
        quotas[member_id] = quota + (larger > 0)
        larger -= 1
    for member_id, share in shares.items():
        left = _size(share) - quotas[member_id]
        for topic_id in list(share):
            while left > 0 and share[topic_id]:
                each = max(share[topic_id])
                share[topic_id].remove(each)
                free.append((topic_id, each))
                left -= 1
    rest = iter(free)
    for member_id, share in shares.items():
        for _ in range(quotas[member_id] - _size(share)):
            topic_id, each = next(rest)
            share.setdefault(topic_id, set()).add(each)
    return shares


def _size(share: _Partitions) -> int:
    return sum(map(len, share.values()))


class _Balance:
    """Shares the partitions of members who read different topics."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._shares = _kept(spec)
        self._sizes = {member_id: _size(share) for member_id, share in self._shares.items()}
        self._readers: dict[bytes, list[str]] = defaultdict(list)
        for member_id, member in spec.members.items():
            for topic_id in member.topic_ids:
                self._readers[topic_id].append(member_id)

    def shares(self) -> dict[str, _Partitions]:
        """Give away what nobody has, and then move what makes it more even."""
        free = _free(self._spec, self._shares)
        for topic_id in self._in_order(free):
            self._give(topic_id, free[topic_id])
        topics = self._in_order(id for id, readers in self._readers.items() if len(readers) > 1)
        for _ in range(_MOST_ROUNDS):
            if not any([self._even_out(topic_id) for topic_id in topics]):
                break
        return self._shares

    def _in_order(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """First the topics whose partitions weigh most: others can even out after them."""

        def weight(topic_id: bytes) -> tuple[float, int, bytes]:
            count, readers = self._spec.partition_counts[topic_id], len(self._readers[topic_id])
            return -count / readers, readers, topic_id

        return sorted((id for id in topic_ids if self._readers[id]), key=weight)

    def _give(self, topic_id: bytes, partitions: Iterable[int]) -> None:
        """Give each partition to the reader with the fewest."""
        heap = [(self._sizes[id], place, id) for place, id in enumerate(self._readers[topic_id])]
        heapq.heapify(heap)
        for each in partitions:
            size, place, member_id = heap[0]
            self._shares[member_id].setdefault(topic_id, set()).add(each)
            self._sizes[member_id] = size + 1
            heapq.heapreplace(heap, (size + 1, place, member_id))

    def _even_out(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from those who have many to those who have few."""
        readers, sizes = self._readers[topic_id], self._sizes
        has_moved = False
        while True:
            owners = [id for id in readers if self._shares[id].get(topic_id)]
            if not owners:
                return has_moved
            most = max(owners, key=sizes.__getitem__)
            least = min(readers, key=sizes.__getitem__)
            if sizes[most] - sizes[least] <= 1:
                return has_moved
            each = max(self._shares[most][topic_id])
            self._shares[most][topic_id].remove(each)
            self._shares[least].setdefault(topic_id, set()).add(each)
            sizes[most] -= 1
            sizes[least] += 1
            has_moved = True
