"""Topics of a running cluster, asked and changed through confluent-kafka's admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

POLL_S = 0.05
REQUEST_S = 10.0


@dataclass(frozen=True)
class PartitionState:
    """Who holds one partition. `leader` is -1 when there is none."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def connected(bootstrap_servers: str) -> AdminClient:
    """An admin client for one question; 55 ms with its first request.

    Nothing is kept between questions: a test may fork, and nodes come and go. (kafka-python's
    admin client leaves sockets open when it meets a dead node.)
    """
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int,
    replication: int,
    config: Mapping[str, str],
) -> None:
    """Create one topic; an error of the broker is raised."""
    topic = NewTopic(name, partitions, replication, config=dict(config))
    admin = connected(bootstrap_servers)
    created = admin.create_topics([topic], operation_timeout=REQUEST_S)
    created[name].result(REQUEST_S + 5)


def partitions(bootstrap_servers: str, topic: str) -> dict[int, PartitionState]:
    """State of each partition by index; empty while the broker that was asked has no such topic."""
    # All topics are listed, because to ask for one by name would create it; and librdkafka's
    # describe_topics spins until its timeout when it has picked a dead node.
    found = connected(bootstrap_servers).list_topics(timeout=REQUEST_S).topics.get(topic)
    if found is None or found.error is not None:
        return {}
    return {
        index: PartitionState(each.leader, tuple(each.replicas), tuple(each.isrs))
        for index, each in found.partitions.items()
    }


def wait_for_partitions(
    bootstrap_servers: str,
    topic: str,
    wanted: Callable[[dict[int, PartitionState]], bool],
    what: str,
    timeout_s: float,
) -> dict[int, PartitionState]:
    """Ask until `wanted` holds; return the state then.

    Raises: TimeoutError saying `what` did not come about and what the state was.
    """
    deadline = time.monotonic() + timeout_s
    seen: dict[int, PartitionState] | KafkaException = {}
    while True:
        try:
            seen = partitions(bootstrap_servers, topic)
            if wanted(seen):
                return seen
        except KafkaException as error:
            # A node that is just going down answers with errors; the deadline bounds it.
            seen = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: {what}: not so after {timeout_s} s; last seen {seen!r}")
        time.sleep(POLL_S)
