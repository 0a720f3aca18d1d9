"""The event loops that awaiting is tried on, and producers for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from fastprod.aio import AsyncProducer
from support.engine.quick_producer import BACKOFFS_MS
from support.peer.stage import Stage

Run = Callable[[Coroutine[Any, Any, Any]], Any]

EVERY_LOOP = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


def quick_async_producer(brokers: Stage | str, **settings: Any) -> AsyncProducer:
    """As `quick_producer`."""
    servers = brokers if isinstance(brokers, str) else brokers.bootstrap_servers
    return AsyncProducer({"bootstrap_servers": servers, **BACKOFFS_MS, **settings})


async def settle(turns: int = 5) -> None:
    """Let every task go on that can."""
    for _ in range(turns):
        await asyncio.sleep(0)
