"""A producer that is ready to send to one topic, or a failure that says what is in the way."""

from __future__ import annotations

import click

from fastprod.cli.broker_connection import ConnectionTrouble
from fastprod.cli.cluster_probe import reach_cluster
from fastprod.cli.failure import Unreachable
from fastprod.config import ProducerConfig
from fastprod.errors import InvalidTopicError, KafkaError
from fastprod.producer import KafkaProducer


def connected_producer(config: ProducerConfig, topic: str, timeout_s: float) -> KafkaProducer:
    """Make a producer, connected to the leaders of `topic`. The caller closes it.

    Args:
        config: its settings.
        topic: topic name; a cluster that creates topics on demand creates it.
        timeout_s: how long it may take, in seconds.

    Raises:
        Unreachable: no broker answers, or the topic is not there.
        click.UsageError: the topic's name cannot be one, or a producer cannot have the settings.

    Blocks: up to `timeout_s` for each bootstrap server, and once more for the topic.
    """
    with reach_cluster(config.bootstrap_servers, timeout_s) as connection:
        try:
            connection.metadata([topic])
        except ConnectionTrouble as error:
            raise Unreachable(str(error)) from error
        except ValueError as error:
            raise click.UsageError(f"the topic's name cannot be one: {error}") from error
    settings = {name: getattr(config, name) for name in config.explicit}
    settings["bootstrap_servers"] = [str(server) for server in config.bootstrap_servers]
    try:
        producer = KafkaProducer(settings)
    except KafkaError as error:
        raise click.UsageError(str(error)) from error
    try:
        producer.warmup(topic, timeout=timeout_s)
    except BaseException as error:
        producer.close(0)
        if isinstance(error, InvalidTopicError):
            raise click.UsageError(str(error)) from error
        if isinstance(error, KafkaError):
            raise Unreachable(str(error)) from error
        raise
    return producer
