"""ClientSettings: the settings of a producer that the options of a command give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from fastprod.cli.options.finite_range import FiniteRange
from fastprod.cli.options.properties import read_properties, split_properties
from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_SERVERS: Final = ("bootstrap.servers", "metadata.broker.list")
_JAVA_PACKAGE: Final = "org.apache.kafka."

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What click.option() makes: a decorator of a command."""


@dataclass(frozen=True)
class ClientSettings:
    """What the options in `client_options` say: which cluster, and how to send to it.

    A setting is taken from its option, else from `properties`, else from `config_file`, else it has
    its default. They are read and checked when first asked for.

    Attributes:
        client_id: default of client.id.
        bootstrap_servers: host:port,...; None: not given.
        config_file: Java properties file; None: not given.
        properties: settings as name=value; not shown, as one may be a password.
        compression: codec; None: not given.
        timeout_s: how long a step towards the cluster may take, in seconds.
    """

    client_id: str
    bootstrap_servers: str | None = None
    config_file: Path | None = None
    properties: Sequence[str] = field(default=(), repr=False)
    compression: str | None = None
    timeout_s: float = 10.0

    @property
    def by_name(self) -> dict[str, str]:
        """The settings as text by Kafka's dotted names, checked.

        Java's serializers are left out: what the command line sends is bytes already.

        Raises:
            click.UsageError: a setting, or the file, is wrong.
        """
        return self._checked[0]

    @property
    def config(self) -> ProducerConfig:
        """The same as a producer has them.

        Raises:
            click.UsageError: as `by_name`.
        """
        return self._checked[1]

    @property
    def servers(self) -> str:
        """The bootstrap servers as host:port,..., for another client.

        Raises:
            click.UsageError: as `by_name`.
        """
        return ",".join(str(server) for server in self.config.bootstrap_servers)

    @property
    def names_cluster(self) -> bool:
        """Whether a cluster was named, by an option or in the file.

        Raises:
            click.UsageError: as `by_name`.
        """
        if self.bootstrap_servers is not None:
            return True
        return any(name.replace("_", ".") in _SERVERS for layer in self._layers for name in layer)

    @functools.cached_property
    def _layers(self) -> list[dict[str, str]]:
        """What the file and the single settings say; the last one wins."""
        layers = [split_properties(self.properties, "--command-property")]
        if self.config_file is not None:
            layers.insert(0, read_properties(self.config_file))
        return layers

    @functools.cached_property
    def _checked(self) -> tuple[dict[str, str], ProducerConfig]:
        settings = {"client.id": self.client_id}
        if not self.names_cluster:
            settings["bootstrap.servers"] = DEFAULT_BOOTSTRAP
        for layer in self._layers:
            for name, value in layer.items():
                is_java = name.endswith(".serializer") and value.startswith(_JAVA_PACKAGE)
                if not is_java:
                    settings[name.replace("_", ".")] = value
        if self.compression is not None:
            settings["compression.type"] = self.compression
        if self.bootstrap_servers is not None:
            settings = {name: each for name, each in settings.items() if name not in _SERVERS}
            settings["bootstrap.servers"] = self.bootstrap_servers
        try:
            config = ProducerConfig(settings)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        if config.transactional_id is not None:
            raise click.UsageError(
                "transactional.id is refused: the commands use no transactions; leave it out"
            )
        # librdkafka's name for them means the same; who reads these settings need not know it.
        servers = [settings.pop(name) for name in _SERVERS if name in settings]
        return {**settings, "bootstrap.servers": servers[0]}, config


def bootstrap_option(default: str = "") -> Option:
    """`--bootstrap-servers`, as Kafka's tools and Kafka's settings spell it."""
    shown = f" [default: {default}]" if default else ""
    return click.option(
        "-b",
        "--bootstrap-servers",
        "--bootstrap-server",
        "bootstrap_servers",
        metavar="HOST:PORT,...",
        help=f"Brokers to learn the cluster from.{shown}",
    )


def timeout_option(default_s: float, help_text: str) -> Option:
    """`--timeout`, in seconds."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=FiniteRange(min=0, min_open=True, max=3600),
        default=default_s,
        show_default=True,
        metavar="SECONDS",
        help=help_text,
    )


topic_timeout_option: Final = timeout_option(
    10.0, "How long to wait for the cluster and the topic before giving up."
)

compression_option: Final = click.option(
    "--compression", type=click.Choice(_CODECS), help="Codec of the batches."
)

SETTINGS_OPTIONS: Final = (
    click.option(
        "--command-config",
        "--producer.config",
        "config_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A properties file with settings of the producer; --command-property overrides it. "
        "The place for passwords, or for references to them, as in sasl.password=${env:NAME}.",
    ),
    click.option(
        "-X",
        "--command-property",
        "--producer-property",
        "--producer-props",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the producer by Kafka's name, such as linger.ms=5; may be repeated. A "
        "password does not belong here, but '${env:NAME}' and '${file:PATH}' do.",
    ),
)
"""The options for settings by their names, from a file and one by one."""

PRODUCER_OPTIONS: Final = (
    bootstrap_option(DEFAULT_BOOTSTRAP),
    *SETTINGS_OPTIONS,
    topic_timeout_option,
)
"""The options by which any setting of a producer can be given."""


def client_options(client_id: str, *options: Option) -> Option:
    """Give a command `options`, which reach it as one argument, `client`.

    Args:
        client_id: default of client.id.
        options: each one's parameter is named as an attribute of `ClientSettings`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        names = set(ClientSettings.__dataclass_fields__)

        @functools.wraps(function)
        def command(**given: Any) -> Any:
            own = {name: given.pop(name) for name in names & given.keys()}
            return function(client=ClientSettings(client_id, **own), **given)

        return with_options(options)(command)

    return decorate


def with_options(options: Sequence[Option]) -> Option:
    """Give a command `options`, shown by --help in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
