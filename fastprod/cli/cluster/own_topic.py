"""own_topic: a topic for a demo, which is deleted at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from fastprod.cli.cluster.broker_access import broker_access
from fastprod.cli.cluster.cluster_probe import reach_cluster
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.output.failure import Unreachable
from fastprod.errors import KafkaError


@contextlib.contextmanager
def own_topic(client: ClientSettings, topic: str, partition_count: int) -> Iterator[None]:
    """Create a topic for the block, and delete it after it; stderr says if that fails.

    Args:
        client: names the servers, and how long each step may take.
        topic: to create.
        partition_count: of it.

    Raises:
        Unreachable: it cannot be created.
    """
    servers = client.config.bootstrap_servers
    with (
        broker_access(client.config) as access,
        reach_cluster(servers, client.timeout_s, access) as connection,
    ):
        try:
            connection.create_topic(topic, partition_count)
        except (ConnectionTrouble, KafkaError) as error:
            raise Unreachable(f"cannot create the topic {topic}: {error}") from error
    try:
        yield
    finally:
        try:
            with (
                broker_access(client.config) as access,
                reach_cluster(servers, client.timeout_s, access) as connection,
            ):
                connection.delete_topic(topic)
        except (Unreachable, ConnectionTrouble, KafkaError) as error:
            click.echo(f"fastprod demo: the topic {topic} is left over: {error}", err=True)
