"""Which nodes get the replicas of a new topic (B-D4.5)."""

from __future__ import annotations

import pytest

from fastprod.broker.cluster.replica_assignment import checked_assignment, spread
from fastprod.broker.cluster.topic_error import TopicError


def test_leaders_go_round_and_nodes_that_are_down_come_last() -> None:
    assert spread(4, 2, [0, 1, 2], [0, 1, 2]) == [[0, 1], [1, 2], [2, 0], [0, 1]]
    assert spread(2, 3, [0, 1, 2], [1, 2]) == [[1, 2, 0], [2, 1, 0]]


def test_an_assignment_names_every_partition_and_each_node_once() -> None:
    assert checked_assignment({1: [2, 1], 0: (0, 1)}, [0, 1, 2]) == [[0, 1], [2, 1]]
    wrongs: list[dict[int, list[int]]] = [{1: [0]}, {0: []}, {0: [1, 1]}, {0: [3]}]
    for wrong in wrongs:
        with pytest.raises(TopicError):
            checked_assignment(wrong, [0, 1, 2])


def test_all_partitions_of_a_topic_are_created_with_as_many_replicas() -> None:
    with pytest.raises(TopicError, match=r"partition 1 is assigned to 1 node.*before it have 2"):
        checked_assignment({0: [0, 1], 1: [2]}, [0, 1, 2])
    with pytest.raises(TopicError, match=r"partition 0 is assigned to 2 node.*before it have 1"):
        checked_assignment({0: [0, 1]}, [0, 1, 2], factor=1)
