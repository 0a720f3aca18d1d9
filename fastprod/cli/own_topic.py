"""OwnTopic: a topic that a demo makes, and deletes in any case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from fastprod.cli.broker_connection import ConnectionTrouble
from fastprod.cli.cluster_probe import reach_cluster
from fastprod.cli.failure import Unreachable
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError


@contextlib.contextmanager
def own_topic(
    config: ProducerConfig, topic: str, partition_count: int, timeout_s: float
) -> Iterator[None]:
    """Create a topic; it goes with the block, or stderr says that it is left over.

    Args:
        config: names the servers.
        topic: to create.
        partition_count: of it.
        timeout_s: bound of each step.

    Raises:
        Unreachable: it cannot be created.
    """
    servers = config.bootstrap_servers
    with reach_cluster(servers, timeout_s) as connection:
        try:
            connection.create_topic(topic, partition_count)
        except (ConnectionTrouble, KafkaError) as error:
            raise Unreachable(f"cannot create the topic {topic}: {error}") from error
    try:
        yield
    finally:
        try:
            with reach_cluster(servers, timeout_s) as connection:
                connection.delete_topic(topic)
        except (Unreachable, ConnectionTrouble, KafkaError) as error:
            click.echo(f"fastprod demo: the topic {topic} is left over: {error}", err=True)
