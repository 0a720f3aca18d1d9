"""A partition with three replicas in a `BrokerWorld`, and what befalls its nodes."""

from __future__ import annotations

from collections.abc import Callable

from fastprod.broker.cluster.cluster import NodeAddress
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.replica.replicated_partition import ReplicatedPartition
from support.broker.world import BrokerWorld, wait_for


def replicated(world: BrokerWorld, **config: str) -> ReplicatedPartition:
    """Partition t-0 of three nodes, led by node 0."""
    found = world.state.topics.create("t", 1, 3, config).partitions[0]
    assert isinstance(found, ReplicatedPartition)
    return found


def await_told(partition: Partition, is_so: Callable[[], bool]) -> None:
    """Until a decision on a partition is so, and its nodes know: they are told a moment later."""

    def holds() -> bool:
        with partition.lock:  # held around both
            return is_so()

    wait_for(holds)


def pause(world: BrokerWorld, *node_ids: int) -> None:
    """Have the followers of these nodes, and of no others, fetch nothing."""
    for node_id in range(3):
        world.state.replication.set_fetching(node_id, node_id not in node_ids)


def kill(world: BrokerWorld, node_id: int) -> None:
    world.state.cluster.node_down(node_id, True, hands_over=False)


def up(world: BrokerWorld, node_id: int) -> None:
    world.state.cluster.node_up(NodeAddress(node_id, "127.0.0.1", 9000 + node_id))


def values(partition: ReplicatedPartition, node_id: int) -> list[bytes | None]:
    batches = partition.log_at(node_id).batches()
    return [record.value for batch in batches for record in batch.records()]


def high_watermarks(partition: ReplicatedPartition) -> list[int]:
    return [partition.log_at(each).high_watermark for each in range(3)]
