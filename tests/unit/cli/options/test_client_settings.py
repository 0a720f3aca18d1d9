"""fastprod.cli.options.client_settings: which of several sources of a setting counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from fastprod.cli.options.client_settings import (
    PRODUCER_OPTIONS,
    ClientSettings,
    bootstrap_option,
    client_options,
    compression_option,
)


def settings(**given: Any) -> ClientSettings:
    return ClientSettings("d", **given)


def test_an_option_goes_before_a_property_before_the_file_before_the_default(
    tmp_path: Path,
) -> None:
    file = tmp_path / "p"
    file.write_text("bootstrap.servers=file:1\nacks=1\nlinger.ms=1\nclient.id=mine")
    assert settings().servers == "localhost:9092"
    assert settings(config_file=file).servers == "file:1"
    given = settings(
        bootstrap_servers="option:3,other:4",
        config_file=file,
        properties=["bootstrap.servers=property:2", "linger_ms=2", "compression.type=gzip"],
        compression="lz4",
    )
    assert given.servers == "option:3,other:4"
    config = given.config
    assert (config.linger_ms, config.acks, config.compression_type) == (2, 1, "lz4")
    assert given.by_name == {
        "bootstrap.servers": "option:3,other:4",
        "client.id": "mine",
        "acks": "1",
        "linger.ms": "2",
        "compression.type": "lz4",
    }


def test_servers_by_librdkafkas_name_reach_every_reader_by_kafkas(tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_text("metadata.broker.list=seed:9092\n")
    given = settings(config_file=file)
    assert given.servers == "seed:9092"
    assert given.by_name == {"client.id": "d", "bootstrap.servers": "seed:9092"}


def test_serializers_of_java_are_left_out_and_others_are_not() -> None:
    java = "org.apache.kafka.common.serialization.ByteArraySerializer"
    pairs = [f"key.serializer={java}", f"value.serializer={java}"]
    assert settings(properties=pairs).config.key_serializer is None
    with pytest.raises(click.UsageError, match=r"value\.serializer"):
        assert settings(properties=["value.serializer=no.such.Thing"]).config


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("lingr.ms=5", "did you mean linger.ms"),
        ("acks=2", "must be all, -1, 0 or 1"),
        ("bootstrap.servers=nowhere", "must be host:port"),
        ("transactional.id=t", "transactional.id is refused"),
        ("sasl.jaas.config=secret", "sasl.jaas.config = .hidden.: it has no flag"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(pair: str, told: str) -> None:
    with pytest.raises(click.UsageError, match=told) as raised:
        assert settings(properties=[pair]).by_name
    assert "secret" not in str(raised.value)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(settings(properties=["sasl.password=secret"]))


def test_a_command_gets_its_options_as_one_argument() -> None:
    seen: list[tuple[ClientSettings, str]] = []

    @click.command()
    @client_options("all", *PRODUCER_OPTIONS, compression_option)
    @click.option("--topic")
    def command(client: ClientSettings, topic: str) -> None:
        seen.append((client, topic))

    words = "-b h:1 --command-config f -X a=b -X c=d --compression gzip --timeout 3 --topic t"
    command(words.split(), standalone_mode=False)
    expected = ClientSettings("all", "h:1", Path("f"), ("a=b", "c=d"), "gzip", 3.0)
    assert seen == [(expected, "t")]


def test_a_command_may_have_few_of_the_options() -> None:
    seen: list[ClientSettings] = []

    @click.command()
    @client_options("few", bootstrap_option())
    def command(client: ClientSettings) -> None:
        seen.append(client)

    command([], standalone_mode=False)
    assert seen == [ClientSettings("few")]
    with pytest.raises(click.UsageError, match="No such option"):
        command(["--compression", "gzip"], standalone_mode=False)
