"""FollowedTopics: the topics whose metadata we want, until they are idle (contract P-H.3)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

LastUsed = Callable[[str], int | None]
"""When a topic was last used, in ms; None if unknown."""


class FollowedTopics:
    """Topics, when each was last asked for, and which of them have had no answer yet.

    An addition and an answer cost the same however many topics there are. Not locked: its owner,
    ``Metadata``, is. Times are ms of one clock.

    Args:
        max_idle_ms: ``metadata.max.idle.ms``: a topic unused for so long is forgotten.
        last_used_ms: for uses that do not come by ``add``; asked only before one is forgotten.
    """

    __slots__ = ("_expiry_ms", "_last_used_ms", "_queue", "_unanswered", "max_idle_ms")

    def __init__(self, max_idle_ms: int, last_used_ms: LastUsed | None = None) -> None:
        self.max_idle_ms = max_idle_ms
        self._last_used_ms = last_used_ms
        self._expiry_ms: dict[str, int] = {}
        self._unanswered: dict[str, None] = {}
        # One entry a topic, the earliest first; it may be earlier than what is true by now.
        self._queue: list[tuple[int, str]] = []

    def __contains__(self, topic: str) -> bool:
        return topic in self._expiry_ms

    def __iter__(self) -> Iterator[str]:
        """Every topic, the one that was added first first."""
        return iter(self._expiry_ms)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Those that no answer has named yet."""
        return tuple(self._unanswered)

    def is_unanswered(self, topic: str) -> bool:
        """Followed, and no answer has named it yet."""
        return topic in self._unanswered

    def add(self, topic: str, now_ms: int) -> bool:
        """Follow a topic, or keep following it: its idle time starts anew. True if it is new."""
        expiry_ms = now_ms + self.max_idle_ms
        is_new = topic not in self._expiry_ms
        self._expiry_ms[topic] = expiry_ms
        if is_new:
            self._unanswered[topic] = None
            heapq.heappush(self._queue, (expiry_ms, topic))
        return is_new

    def answered(self, topic: str) -> None:
        """An answer named the topic."""
        self._unanswered.pop(topic, None)

    def forget_idle(self, now_ms: int) -> frozenset[str]:
        """Forget the topics whose idle time is over, but for those that are unanswered."""
        forgotten = []
        kept = []
        while self._queue and self._queue[0][0] <= now_ms:
            _, topic = heapq.heappop(self._queue)
            if self._is_kept(topic, now_ms):
                kept.append((self._expiry_ms[topic], topic))
            else:
                del self._expiry_ms[topic]
                forgotten.append(topic)
        for entry in kept:  # not before: that of an unanswered one may be due already
            heapq.heappush(self._queue, entry)
        return frozenset(forgotten)

    def _is_kept(self, topic: str, now_ms: int) -> bool:
        if topic in self._unanswered or self._expiry_ms[topic] > now_ms:
            return True
        used_ms = None if self._last_used_ms is None else self._last_used_ms(topic)
        if used_ms is None or used_ms + self.max_idle_ms <= now_ms:
            return False
        self._expiry_ms[topic] = used_ms + self.max_idle_ms
        return True
