"""TopicLines: sends that wait for the metadata of a topic, in the order in which they came."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Awaitable
from typing import Final

_Line = collections.OrderedDict[object, asyncio.Future[None] | None]


class TopicLines:
    """A line of tasks for each topic that an event loop waits for.

    Who comes while others wait goes behind them, also when the metadata has just come: tasks that
    began to send in some order queue their records in that order.

    Attributes:
        lines: those that somebody stands in, by event loop and topic; look at it to see whether
            there is any at all.

    Threads: any; a line belongs to its event loop.
    """

    def __init__(self) -> None:
        self.lines: Final[dict[tuple[asyncio.AbstractEventLoop, str], _Line]] = {}

    def has(self, topic: object) -> bool:
        """Whether tasks of the running event loop wait for this topic."""
        return isinstance(topic, str) and (asyncio.get_running_loop(), topic) in self.lines

    async def behind_others(self, topic: str, known: Awaitable[None] | None = None) -> None:
        """Await `known`, and then those who came before; raise what `known` raises.

        The caller queues its record before it awaits anything else.
        """
        place = asyncio.get_running_loop(), topic
        line = self.lines.get(place)
        if line is None:
            line = self.lines[place] = collections.OrderedDict()
        ticket = object()
        line[ticket] = None
        try:
            if known is not None:
                await known
            while next(iter(line)) is not ticket:
                waiter = line[ticket] = place[0].create_future()
                await waiter
        finally:
            del line[ticket]
            if not line:
                del self.lines[place]
            elif _is_asleep(next(iter(line.values()))):
                _wake_all(line)


def _is_asleep(waiter: asyncio.Future[None] | None) -> bool:
    return waiter is not None and not waiter.done()


def _wake_all(line: _Line) -> None:
    """In one turn of the loop they all go on, each behind the one before."""
    for waiter in line.values():
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
