"""ReplicaFetcher: whose turn it is, and its thread."""

from __future__ import annotations

import threading
from typing import Any, cast

from fastprod.broker.replica.replica_fetcher import ReplicaFetcher
from fastprod.broker.replica.replicated_partition import ReplicatedPartition


class Asked:
    def __init__(self, *names: str) -> None:
        self.partitions: dict[str, Any] = {name: _Named(name) for name in names}
        self.order: list[str] = []
        self.gate = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.left = {name: 2 for name in names}
        self.fetcher = ReplicaFetcher(1, self.fetch)

    def mark(self, name: str) -> None:
        self.fetcher.mark(cast(ReplicatedPartition, self.partitions[name]))

    def fetch(self, partition: ReplicatedPartition, node_id: int) -> bool:
        assert node_id == 1
        assert self.gate.acquire(timeout=20)
        name = partition.topic
        self.order.append(name)
        self.left[name] -= 1
        self.done.release()
        if name == "bad":
            raise OSError("no")
        return self.left[name] > 0


class _Named:
    is_deleted = False

    def __init__(self, topic: str) -> None:
        self.topic = topic


def test_partitions_take_turns() -> None:
    asked = Asked("a", "b")
    try:
        for name in ("a", "b", "a"):
            asked.mark(name)
        for _ in range(4):
            asked.gate.release()
            assert asked.done.acquire(timeout=20)
        assert asked.order in (["a", "b", "a", "b"], ["a", "a", "b", "b"], ["a", "b", "b", "a"])
    finally:
        asked.gate.release(10)
        asked.fetcher.close()


def test_an_error_of_one_does_not_stop_the_others() -> None:
    asked = Asked("bad", "a")
    try:
        asked.mark("bad")
        asked.mark("a")
        asked.gate.release(3)
        for _ in range(3):
            assert asked.done.acquire(timeout=20)
        assert asked.order.count("a") == 2
    finally:
        asked.gate.release(10)
        asked.fetcher.close()


def test_a_closed_one_fetches_nothing_and_has_no_thread() -> None:
    asked = Asked("a")
    asked.fetcher.close()
    asked.mark("a")
    assert asked.fetcher._thread is None
