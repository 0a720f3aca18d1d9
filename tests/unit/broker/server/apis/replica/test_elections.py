"""ElectLeaders: preferred and unclean (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastprod.error_codes import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    INVALID_REQUEST,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.replica.elect_leaders import ElectLeadersRequest, TopicPartitions
from support.broker.replica_world import kill, pause, replicated, up, values
from support.broker.world import BrokerWorld, batch_of, wait_for

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=3) as opened:
        yield opened


def elect(world: BrokerWorld, kind: int, *partitions: int, version: int = 2) -> dict[int, int]:
    """Codes by partition of "t"; without partitions, of all topics."""
    asked = [TopicPartitions(topic="t", partitions=list(partitions))] if partitions else None
    message = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
    answer = world.ask("ElectLeaders", version, message)
    return {
        each.partition_id: each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def test_the_preferred_replica_leads_again(world: BrokerWorld) -> None:
    found = replicated(world)
    assert elect(world, PREFERRED, 0, 7) == {
        0: ELECTION_NOT_NEEDED,
        7: UNKNOWN_TOPIC_OR_PARTITION,
    }
    kill(world, 0)
    assert found.leader == 1
    assert elect(world, PREFERRED, 0) == {0: PREFERRED_LEADER_NOT_AVAILABLE}
    up(world, 0)
    wait_for(lambda: found.isr == [0, 1, 2])
    epoch = found.leader_epoch
    assert elect(world, PREFERRED, version=0) == {0: NONE}
    assert (found.leader, found.leader_epoch) == (0, epoch + 1)
    assert elect(world, PREFERRED) == {}


def test_an_unclean_election_is_for_partitions_without_a_leader(world: BrokerWorld) -> None:
    found = replicated(world)
    pause(world, 1, 2)
    assert world.produce(batch_of(b"lost"), acks=1).error_code == NONE
    assert elect(world, UNCLEAN, 0) == {0: ELECTION_NOT_NEEDED}
    for node_id in (1, 2, 0):
        kill(world, node_id)
    assert elect(world, UNCLEAN, 0) == {0: ELIGIBLE_LEADERS_NOT_AVAILABLE}
    pause(world)
    up(world, 2)
    assert found.leader == -1
    assert elect(world, UNCLEAN, 0) == {0: NONE}
    assert (found.leader, found.isr) == (2, [2])
    up(world, 0)
    wait_for(lambda: found.isr == [0, 2])
    assert values(found, 0) == []


def test_there_is_no_other_election(world: BrokerWorld) -> None:
    replicated(world)
    assert elect(world, 2, 0) == {0: INVALID_REQUEST}
