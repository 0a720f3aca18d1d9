"""Awaiting something of the engine's until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, Protocol

_LONGEST_S: Final = 10**8


class Expiring(Awaitable[None], Protocol):
    """A MemoryTurn or a FlushTurn."""

    def expire(self) -> None: ...


async def within(turn: Expiring, seconds: float | None) -> None:
    """Wait for it, and have it expire after so many seconds.

    Args:
        turn: of the running event loop.
        seconds: 0 or more; None: no limit.
    """
    if seconds is None:
        return await turn
    timer = asyncio.get_running_loop().call_later(min(seconds, _LONGEST_S), turn.expire)
    try:
        await turn
    finally:
        timer.cancel()
