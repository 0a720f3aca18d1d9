"""TopicMap: an immutable mapping by topic name, of which a changed copy is cheap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

_V = TypeVar("_V")


class TopicMap(Generic[_V]):
    """Topic names to values. Immutable: any thread, no lock, never blocks.

    The names are dealt out to as many dictionaries as the square root of their number, so that a
    copy with one change shares all of them but one: among 10,000 topics it copies some hundred
    entries. What differs between two such copies is found as cheaply.

    Args:
        entries: copied.
    """

    __slots__ = ("_count", "_shards")

    def __init__(self, entries: Mapping[str, _V] | None = None) -> None:
        found = {} if entries is None else entries
        shard_count = 1
        while shard_count * shard_count < len(found):
            shard_count *= 4
        shards: list[dict[str, _V]] = [{} for _ in range(shard_count)]
        for name, value in found.items():
            shards[hash(name) & (shard_count - 1)][name] = value
        self._shards = tuple(shards)
        self._count = len(found)

    def get(self, name: str) -> _V | None:
        """The value of a topic; None: there is no such topic here."""
        shards = self._shards
        return shards[hash(name) & (len(shards) - 1)].get(name)

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[tuple[str, _V]]:
        """Every topic with its value, in no order."""
        for shard in self._shards:
            yield from shard.items()

    def with_changes(self, changes: Mapping[str, _V | None]) -> TopicMap[_V]:
        """A copy in which these topics have these values; None: they are gone."""
        if not changes:
            return self
        shards = list(self._shards)
        copied: set[int] = set()
        count = self._count
        for name, value in changes.items():
            at = hash(name) & (len(shards) - 1)
            if at not in copied:
                copied.add(at)
                shards[at] = dict(shards[at])
            count -= name in shards[at]
            if value is None:
                shards[at].pop(name, None)
            else:
                shards[at][name] = value
                count += 1
        if count > len(shards) * len(shards):
            return TopicMap({name: value for shard in shards for name, value in shard.items()})
        changed: TopicMap[_V] = TopicMap()
        changed._shards = tuple(shards)
        changed._count = count
        return changed

    def differing(self, older: TopicMap[_V]) -> Iterator[str]:
        """The topics that only one of both has, or whose values are not the same object."""
        if len(self._shards) != len(older._shards):
            here, there = dict(self.items()), dict(older.items())
            yield from _differing(here, there)
            return
        for new, old in zip(self._shards, older._shards, strict=True):
            if new is not old:
                yield from _differing(new, old)


def _differing(new: dict[str, _V], old: dict[str, _V]) -> Iterator[str]:
    for name, value in new.items():
        if old.get(name) is not value:
            yield name
    for name in old:
        if name not in new:
            yield name
