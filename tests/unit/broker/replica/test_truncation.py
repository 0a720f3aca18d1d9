"""How far two logs agree (KIP-101, KIP-279)."""

from __future__ import annotations

import random

import pytest

from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.replica.replica_log import ReplicaLog
from fastprod.broker.replica.truncation import truncate_to_leader
from fastprod.broker.threads.clock import SystemClock
from support.broker.world import batch_of


def new_log() -> ReplicaLog:
    return ReplicaLog(None, "t", 0, LogConfig(), SystemClock())


def append(log: ReplicaLog, epoch: int, *values: bytes) -> None:
    for value in values:
        log.append(bytearray(batch_of(value)), epoch)


def epochs_of(log: ReplicaLog) -> list[int]:
    return [each.partition_leader_epoch for each in log.batches()]


@pytest.mark.parametrize(
    ("own", "leaders", "kept"),
    [
        ([], [], 0),
        ([0, 0], [0, 0, 0], 2),
        ([0, 0, 0], [0, 0], 2),
        ([0, 0, 1], [0, 0, 2, 2], 2),
        # The leader has begun no such epoch: only what is replicated is sure, and that is nothing.
        ([0, 1, 1], [0, 0, 0], 0),
        # Neither knows the other's newest epoch: the follower has to ask twice.
        ([0, 0, 2, 2], [0, 1, 1, 3], 1),
        ([0, 2, 4, 4], [0, 1, 3, 5], 1),
        ([3, 3], [5, 5], 0),
    ],
)
def test_a_follower_keeps_what_its_leader_has(
    own: list[int], leaders: list[int], kept: int
) -> None:
    log, leader = new_log(), new_log()
    for epoch in own:
        append(log, epoch, b"a")
    for epoch in leaders:
        append(leader, epoch, b"a")
    truncate_to_leader(log, leader)
    assert log.log_end_offset == kept
    assert epochs_of(log) == leaders[:kept]


def test_any_two_histories_agree_afterwards() -> None:
    """An epoch has one leader: two logs that have it have the same beginning of it."""
    chosen = random.Random(7)
    for _ in range(200):
        logs: list[list[int]] = [[], [], []]
        for epoch in range(8):
            at = chosen.randrange(3)
            for each in logs:
                common = next(
                    (n for n, (a, b) in enumerate(zip(each, logs[at], strict=False)) if a != b),
                    min(len(each), len(logs[at])),
                )
                if each is not logs[at] and chosen.random() < 0.4:
                    each[:] = logs[at][: max(common, chosen.randint(0, len(logs[at])))]
            logs[at] += [epoch] * chosen.randrange(3)
        log, leader = new_log(), new_log()
        for epoch in logs[0]:
            append(log, epoch, b"a")
        for epoch in logs[1]:
            append(leader, epoch, b"a")
        truncate_to_leader(log, leader)
        end = log.log_end_offset
        assert epochs_of(log) == logs[1][:end]
