"""Options that several commands share, and the settings that come of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fastprod.cli.headers import header
from fastprod.cli.properties import read_properties, split_properties
from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_JAVA_PACKAGE: Final = "org.apache.kafka."

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def _show_log(ctx: click.Context, param: click.Parameter, verbose: bool) -> bool:
    # Without a handler of its own Python's logging would write warnings between our lines.
    handler = logging.StreamHandler() if verbose else logging.NullHandler()
    logging.basicConfig(
        handlers=[handler],
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    return verbose


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_show_log,
    help="Show the client's log on stderr.",
)

spark_verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    callback=_show_log,
    help="Show the logs of the client and of Spark on stderr.",
)

timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the cluster and the topic before giving up.",
)

compression_option = click.option(
    "--compression", type=click.Choice(_CODECS), help="Codec of the batches."
)

header_option = click.option(
    "-H",
    "--header",
    "headers",
    type=header,
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; may be repeated, the same name too.",
)


def bootstrap_option(*, required: bool, default: str = "") -> Callable[[_Decorated], _Decorated]:
    """`--bootstrap-servers`, as Kafka's tools spell it and as its settings do."""
    shown = f" [default: {default}]" if default else ""
    return click.option(
        "-b",
        "--bootstrap-servers",
        "--bootstrap-server",
        "bootstrap_servers",
        required=required,
        metavar="HOST:PORT,...",
        help=f"Brokers to learn the cluster from.{shown}",
    )


def producer_options(function: _Decorated) -> _Decorated:
    """The options by which any setting of a producer can be given."""
    function = click.option(
        "-X",
        "--command-property",
        "--producer-property",
        "--producer-props",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the producer by Kafka's name, such as linger.ms=5; may be repeated.",
    )(function)
    function = click.option(
        "--command-config",
        "--producer.config",
        "config_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A properties file with settings of the producer; --command-property goes before it.",
    )(function)
    return function


def given_settings(
    bootstrap_servers: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    client_id: str,
    **more: str | None,
) -> dict[str, str]:
    """Return the settings as text by Kafka's dotted names; see `producer_settings`.

    Raises:
        click.UsageError: the file, or the form of a property, is wrong.
    """
    settings = {"bootstrap.servers": DEFAULT_BOOTSTRAP, "client.id": client_id}
    layers = [split_properties(properties, "--command-property")]
    if config_file is not None:
        layers.insert(0, read_properties(config_file))
    for layer in layers:
        for name, value in layer.items():
            is_java = name.endswith(".serializer") and value.startswith(_JAVA_PACKAGE)
            if not is_java:
                settings[name.replace("_", ".")] = value
    for name, given in more.items():
        if given is not None:
            settings[name.replace("_", ".")] = given
    if bootstrap_servers is not None:
        settings["bootstrap.servers"] = bootstrap_servers
    return settings


def checked_settings(settings: Mapping[str, str]) -> ProducerConfig:
    """Return the producer's settings that `given_settings` stands for.

    Raises:
        click.UsageError: a setting is wrong.
    """
    try:
        return ProducerConfig(settings)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def producer_settings(
    bootstrap_servers: str | None,
    config_file: Path | None,
    properties: Sequence[str],
    client_id: str,
    **more: str | None,
) -> ProducerConfig:
    """Return the settings that the options stand for: an option, a property, the file, a default.

    Serializers of Java's are left out: what the command line sends is bytes already.

    Args:
        bootstrap_servers: from `bootstrap_option`.
        config_file: from `producer_options`.
        properties: from `producer_options`.
        client_id: default of client.id.
        more: further options' settings by name; None: not given.

    Raises:
        click.UsageError: a setting, or the file, is wrong.
    """
    return checked_settings(
        given_settings(bootstrap_servers, config_file, properties, client_id, **more)
    )
