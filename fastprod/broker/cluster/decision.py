"""Decision: what the controller decides of a partition."""

from __future__ import annotations

from typing import NamedTuple

NO_NODE = -1


class Decision(NamedTuple):
    """What the controller decides of a partition: written down before a node is told.

    Attributes:
        leader: node that leads from now on; -1: none.
        leader_epoch: one more than before if the leader changes.
        replicas: the preferred leader first; with those that are added and removed.
        isr: replicas in sync.
        adding: replicas that a reassignment adds, and that may not be in sync yet.
        removing: replicas that go when those that are added are in sync.
    """

    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
