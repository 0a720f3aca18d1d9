"""Partition: leaders, epochs and replicas in sync."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastprod.broker.cluster.partition import NO_NODE, Partition, close_all
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.threads.clock import SystemClock
from support.broker.world import batch_of, move_leader


def partition(*replicas: int) -> Partition:
    return Partition("t", 0, Log(None, "t", 0, LogConfig(), SystemClock()), replicas)


def test_a_batch_gets_the_leader_epoch_of_its_time() -> None:
    """B-C2.1"""
    led = partition(0, 1)
    led.append(bytearray(batch_of(b"a")))
    assert move_leader(led, 1, [0, 1]) == 1
    led.append(bytearray(batch_of(b"b")))
    assert [each.partition_leader_epoch for each in led.log.batches()] == [0, 1]


def test_a_node_without_a_replica_takes_the_old_leaders_place() -> None:
    led = partition(0, 1)
    move_leader(led, 5, [0, 1, 5])
    assert (led.leader, led.replicas, led.isr) == (5, [5, 1], [5, 1])


def test_a_replica_that_leads_changes_no_replicas() -> None:
    led = partition(0, 1)
    move_leader(led, 1, [0, 1])
    assert (led.leader, led.replicas, led.isr) == (1, [0, 1], [0, 1])


def test_nobody_may_lead() -> None:
    led = partition(0)
    assert move_leader(led, NO_NODE, [0]) == 1
    assert (led.leader, led.replicas) == (NO_NODE, [0])


def test_replicas_that_live_are_in_sync_and_the_last_one_stays() -> None:
    led = partition(0, 1)
    led.sync_isr([1])
    assert led.isr == [1]
    led.sync_isr([])
    assert led.isr == [1]
    led.sync_isr([1, 0, 7])
    assert led.isr == [0, 1]


def test_a_deleted_partition_takes_nothing() -> None:
    led = partition(0)
    led.delete()
    with pytest.raises(LookupError, match="t-0 was deleted"):
        led.append(bytearray(batch_of(b"a")))


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([OSError("first"), OSError("second")], OSError),
        ([OSError("first"), KeyboardInterrupt(), OSError("third")], KeyboardInterrupt),
    ],
)
def test_all_logs_are_closed_though_some_fail(
    errors: list[BaseException], told: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt is not lost among errors, nor are these."""
    closed: list[int] = []
    left = list(errors)

    def close(self: Any) -> None:
        closed.append(id(self))
        if left:
            raise left.pop(0)

    monkeypatch.setattr(Partition, "close", close)
    with pytest.raises(told) as caught:
        close_all([partition(0) for _ in range(4)])
    assert len(closed) == 4
    assert f"{len(errors) - 1} more logs could not be closed" in caught.value.__notes__[0]
    assert "first" in str(caught.value) + caught.value.__notes__[0]


def test_appends_of_many_threads_come_one_after_another() -> None:
    """B-C4.1: each batch has offsets of its own, and the log is in their order."""
    written = partition(0)
    taken: list[int] = []

    def append() -> None:
        taken.extend(
            written.append(bytearray(batch_of(b"a", b"b"))).base_offset for _ in range(200)
        )

    threads = [threading.Thread(target=append) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(taken) == list(range(0, 1600, 2))
    assert [each.base_offset for each in written.log.batches()] == sorted(taken)
