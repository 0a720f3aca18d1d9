"""A producer that is ready to send to one topic, or a failure that says why not."""

from __future__ import annotations

import click

from fastprod.cli.cluster.broker_access import broker_access
from fastprod.cli.cluster.cluster_probe import reach_cluster
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.output.failure import Unreachable
from fastprod.errors import InvalidTopicError, KafkaError
from fastprod.producer import KafkaProducer
from fastprod.protocol.field_types import SchemaError


def connected_producer(client: ClientSettings, topic: str) -> KafkaProducer:
    """Make a producer, connected to the leaders of `topic`. The caller closes it.

    Args:
        client: the settings; its `timeout_s` is how long it may take.
        topic: topic name; a cluster that creates topics on demand creates it.

    Raises:
        Unreachable: no broker answers, or the topic is not there.
        click.UsageError: the topic's name cannot be one, or a producer cannot have the settings.

    Blocks: up to `timeout_s` for each bootstrap server, and once more for the topic.
    """
    _ask_at_once(client, topic)
    try:
        producer = KafkaProducer(client.by_name)
    except KafkaError as error:
        raise click.UsageError(str(error)) from error
    try:
        producer.warmup(topic, timeout=client.timeout_s)
    except BaseException as error:
        producer.close(0)
        if isinstance(error, InvalidTopicError):
            raise click.UsageError(str(error)) from error
        if isinstance(error, KafkaError):
            raise Unreachable(str(error)) from error
        raise
    return producer


def _ask_at_once(client: ClientSettings, topic: str) -> None:
    """Ask a broker for the topic: a producer would keep trying, and a command tells why not."""
    servers = client.config.bootstrap_servers
    with (
        broker_access(client.config) as access,
        reach_cluster(servers, client.timeout_s, access) as connection,
    ):
        try:
            connection.metadata([topic])
        except ConnectionTrouble as error:
            raise Unreachable(str(error)) from error
        except SchemaError as error:
            raise click.UsageError(f"the topic's name cannot be one: {error}") from error
