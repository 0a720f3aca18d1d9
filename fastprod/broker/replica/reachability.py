"""Reachability: which nodes live, and which of them hear one another."""

from __future__ import annotations


class Reachability:
    """Which nodes are down, cut off from the others, or told to fetch nothing. Any thread reads.

    Whoever changes a node's place here has its partitions look at it afterwards: `Replication`.

    Attributes:
        down: nodes that do not live.
        cut_off: nodes that live and serve clients, but hear neither other nodes nor the controller.
        not_fetching: nodes whose replicas fetch nothing from their leaders.
    """

    def __init__(self) -> None:
        self.down: frozenset[int] = frozenset()
        self.cut_off: frozenset[int] = frozenset()
        self.not_fetching: frozenset[int] = frozenset()

    def lives(self, node_id: int) -> bool:
        """Whether the node serves clients."""
        return node_id not in self.down

    def hears_controller(self, node_id: int) -> bool:
        """Whether it learns who leads, and can have replicas in sync changed."""
        return node_id not in self.down and node_id not in self.cut_off

    def connects(self, one: int, other: int) -> bool:
        """Whether the two can talk."""
        return self.hears_controller(one) and self.hears_controller(other)
