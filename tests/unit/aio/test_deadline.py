"""Waits of the engine's with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from fastprod.aio.deadline import within

WAIT_S = 30.0


class Turn:
    """Ends when it expires."""

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.expired = 0

    def __await__(self) -> Generator[Any, None, None]:
        return self.future.__await__()

    def expire(self) -> None:
        self.expired += 1
        if not self.future.done():
            self.future.set_result(None)


def test_it_expires_in_time() -> None:
    async def main() -> None:
        turn = Turn()
        await asyncio.wait_for(within(turn, 0.001), WAIT_S)
        assert turn.expired == 1

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [None, 3600.0, 1e30])
def test_what_ends_before_does_not_expire(seconds: float | None) -> None:
    async def main() -> None:
        turn = Turn()
        asyncio.get_running_loop().call_soon(turn.future.set_result, None)
        await asyncio.wait_for(within(turn, seconds), WAIT_S)
        assert turn.expired == 0

    asyncio.run(main())
