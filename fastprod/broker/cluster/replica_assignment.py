"""Which nodes get the replicas of a new topic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from fastprod.broker.cluster.topic_error import TopicError
from fastprod.error_codes import INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT


def spread(
    count: int, factor: int, node_ids: Sequence[int], live: Sequence[int]
) -> list[list[int]]:
    """Leaders round robin, each followed by the next nodes; nodes that are down come last.

    Args:
        count: of partitions.
        factor: replicas of each, at most as many as there are nodes.
        node_ids: all nodes.
        live: those that are up.
    """
    down = [each for each in node_ids if each not in live]
    led_by = live or node_ids
    turn_count = min(count, math.lcm(len(led_by), len(down) or 1))
    turn = [
        [*_rotated(led_by, index), *(_rotated(down, index) if live else ())][:factor]
        for index in range(turn_count)
    ]
    # Partitions with the same replicas share a list: that makes checks of large topics quick.
    return [*turn * (count // turn_count), *turn[: count % turn_count]]


def checked_assignment(
    assignment: Mapping[int, Sequence[int]], node_ids: Sequence[int], factor: int | None = None
) -> list[list[int]]:
    """The replicas that a client asks for, by partition.

    Args:
        assignment: nodes of each partition.
        node_ids: all nodes.
        factor: how many replicas each is to have; None: as many as the first.

    Raises:
        TopicError: partitions are missing, or nodes, or some have more replicas than others.
    """
    if sorted(assignment) != list(range(len(assignment))):
        raise TopicError(
            INVALID_REPLICA_ASSIGNMENT,
            f"partitions must be numbered from 0 on without gaps: {sorted(assignment)}",
        )
    for index, nodes in assignment.items():
        if not nodes or len(set(nodes)) != len(nodes):
            raise TopicError(
                INVALID_REPLICA_ASSIGNMENT,
                f"partition {index} is assigned to {list(nodes)}; "
                f"it takes at least one node, and each once",
            )
        unknown: Iterable[int] = set(nodes) - set(node_ids)
        if unknown:
            raise TopicError(
                INVALID_REPLICA_ASSIGNMENT,
                f"partition {index} is assigned to node(s) {sorted(unknown)} that "
                f"do not exist; there are {list(node_ids)}",
            )
        factor = factor or len(nodes)
        if len(nodes) != factor:
            raise TopicError(
                INVALID_REPLICA_ASSIGNMENT,
                f"partition {index} is assigned to {len(nodes)} node(s), where partitions before "
                f"it have {factor}: all of a topic are created with as many replicas",
            )
    return [list(assignment[index]) for index in range(len(assignment))]


def check_nodes(nodes: Sequence[int], node_ids: Sequence[int]) -> None:
    """Check the nodes that a partition is to be on.

    Args:
        nodes: the preferred leader first.
        node_ids: all nodes.

    Raises:
        TopicError: there is no such node, or one comes twice, or none is given.
    """
    if not nodes:
        raise TopicError(
            INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        )
    for node_id in nodes:
        if node_id not in node_ids:
            raise TopicError(
                INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {node_id}, but no such broker "
                f"is registered.",
            )
        if list(nodes).count(node_id) > 1:
            raise TopicError(
                INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {node_id} more than once.",
            )


def check_growth(
    name: str, before_count: int, count: int, assignment: Sequence[Sequence[int]] | None
) -> None:
    """Check how many partitions a topic is to have.

    Args:
        name: of the topic.
        before_count: how many it has.
        count: how many it gets.
        assignment: nodes of each new one.

    Raises:
        TopicError: there are not more of them, or as many assignments as there are new ones.
    """
    if count == before_count:
        raise TopicError(INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if count < before_count:
        raise TopicError(
            INVALID_PARTITIONS,
            f"The topic {name} currently has {before_count} partition(s); {count} would not be "
            f"an increase.",
        )
    added_count = count - before_count
    if assignment is not None and len(assignment) != added_count:
        raise TopicError(
            INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added_count} additional partition(s), but only "
            f"{len(assignment)} assignment(s) were specified.",
        )


def _rotated(nodes: Sequence[int], index: int) -> list[int]:
    """`nodes` in turn, beginning with number `index`."""
    start = index % len(nodes) if nodes else 0
    return [*nodes[start:], *nodes[:start]]
