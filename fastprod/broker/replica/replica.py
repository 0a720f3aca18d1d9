"""Replica: one node's copy of a partition, and what it knows as leader of the others'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastprod.broker.replica.replica_log import ReplicaLog

_UNKNOWN = -1
_LONG_AGO_NS = -(2**62)


class PartitionState(NamedTuple):
    """What the controller has told a node about a partition.

    Attributes:
        leader: the node that leads; -1: none.
        leader_epoch: grows with each change of the leader.
        isr: the replicas in sync.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


class FollowerState:
    """What a leader knows of a follower (Kafka's Replica and ReplicaState).

    Attributes:
        log_end_offset: where its last fetch began: it has all before; -1: it has not fetched yet.
        last_caught_up_ns: when it had, for the last time, all that the leader had.
    """

    __slots__ = ("_fetched_ns", "_leader_end_offset", "last_caught_up_ns", "log_end_offset")

    def __init__(self, caught_up_ns: int) -> None:
        self.log_end_offset = _UNKNOWN
        self.last_caught_up_ns = caught_up_ns
        self._fetched_ns = 0
        self._leader_end_offset = 0

    def fetched(self, offset: int, leader_end_offset: int, now_ns: int) -> None:
        """Note that it fetches from `offset` on."""
        if offset >= leader_end_offset:
            self.last_caught_up_ns = now_ns
        elif offset >= self._leader_end_offset:
            # It has all that there was at its fetch before.
            self.last_caught_up_ns = max(self.last_caught_up_ns, self._fetched_ns)
        self.log_end_offset = offset
        self._leader_end_offset = leader_end_offset
        self._fetched_ns = now_ns

    def is_caught_up(self, leader_end_offset: int, now_ns: int, most_lag_ns: int) -> bool:
        """Whether it has everything, or had it not longer ago than `most_lag_ns`."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ns - self.last_caught_up_ns <= most_lag_ns
        )


class Replica:
    """A node's copy of a partition. The partition's lock guards it.

    Args:
        node_id: whose.
        log: its own.
        state: what the node knows.

    Attributes:
        epoch_start_offset: as leader: where its epoch began.
        followers: as leader: the others, by node.
        needs_truncation: as follower: it has not compared its log with the leader's yet.
    """

    __slots__ = (
        "epoch_start_offset",
        "followers",
        "log",
        "needs_truncation",
        "node_id",
        "state",
    )

    def __init__(self, node_id: int, log: ReplicaLog, state: PartitionState) -> None:
        self.node_id = node_id
        self.log = log
        self.state = state
        self.epoch_start_offset = 0
        self.followers: dict[int, FollowerState] = {}
        self.needs_truncation = True

    @property
    def is_leader(self) -> bool:
        """Whether its node believes that it leads."""
        return self.state.leader == self.node_id

    def begin_leading(self, others: Iterable[int], now_ns: int) -> None:
        """Begin an epoch as its leader (Partition.makeLeader).

        Raises:
            LogError: the epoch cannot be written down.
        """
        self.needs_truncation = False
        self.epoch_start_offset = self.log.log_end_offset
        isr = self.state.isr
        self.followers = {id: FollowerState(now_ns if id in isr else _LONG_AGO_NS) for id in others}
        self.log.begin_epoch(self.state.leader_epoch)

    def know_followers(self, others: Iterable[int]) -> None:
        """As leader: these are the others from now on; who is new has not fetched yet."""
        known = self.followers
        self.followers = {id: known.get(id) or FollowerState(_LONG_AGO_NS) for id in others}

    def begin_following(self) -> None:
        """Begin an epoch as follower (Partition.makeFollower)."""
        self.followers = {}
        self.needs_truncation = True
