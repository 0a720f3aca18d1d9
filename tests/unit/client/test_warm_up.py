"""WarmUp: leaders are asked for until they are connected, and what is missing is told."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from fastprod.client.producer_events import ProducerEvents
from fastprod.client.warm_up import WarmUp
from fastprod.errors import (
    AuthenticationError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
)


class World:
    """Two leaders; a node is warm once it was asked for so often."""

    def __init__(
        self,
        asks: int = 1,
        has_producer_id: bool = True,
        *,
        refusal: KafkaError | None = None,
        standing_error: KafkaError | None = None,
        is_closed: bool = False,
    ) -> None:
        self.asked: list[int] = []
        sending: Any = SimpleNamespace()
        engine = SimpleNamespace(has_producer_id=has_producer_id, abandoned=False)
        cluster: Any = SimpleNamespace(leaders=lambda topics: [1, 2])
        client: Any = SimpleNamespace(
            is_warm=lambda node: self.asked.count(node) >= asks,
            warm=self.asked.append,
            disconnect_reason=lambda node: f"{node} is off" if node == 2 else "",
            producer_id_error=lambda: "nobody knows it",
            refusal=lambda node: refusal if node == 2 else None,
        )
        metadata = SimpleNamespace(
            known_cluster=cluster, standing_error=standing_error, is_closed=is_closed
        )
        self.warm_up = WarmUp(engine, metadata, client, ProducerEvents(sending))

    def wait(self, timeout_s: float) -> None:
        self.warm_up.wait(["t"], time.monotonic() + timeout_s, timeout_s)


def test_each_leader_is_asked_for_until_it_is_warm() -> None:
    world = World(asks=3)
    world.wait(10)
    assert world.asked == [1, 2] * 3


def test_leaders_that_stay_cold_are_told_with_a_reason() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"100 ms: 2 of 2 leader.* reached: 2 is off"):
        World(asks=10**6).wait(0.1)


def test_a_missing_producer_id_is_told_with_its_reason() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"no broker has given .*: nobody knows it"):
        World(asks=0, has_producer_id=False).wait(0.1)


def test_a_leader_that_refuses_us_ends_the_wait_at_once() -> None:
    """P-H.7.2"""
    world = World(asks=10**6, refusal=AuthenticationError("wrong password"))
    with pytest.raises(AuthenticationError, match="wrong password"):
        world.wait(60)


def test_a_refusal_ends_the_wait_for_a_producer_id_too() -> None:
    """P-H.7.2"""
    world = World(has_producer_id=False, standing_error=AuthenticationError("wrong password"))
    with pytest.raises(AuthenticationError, match="wrong password"):
        world.wait(60)


def test_a_close_ends_the_wait_at_once() -> None:
    with pytest.raises(ProducerClosedError, match="while warmup in progress"):
        World(asks=10**6, is_closed=True).wait(60)
