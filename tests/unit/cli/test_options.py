"""fastprod.cli.options: which of several sources of a setting counts."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fastprod.cli.options import producer_settings


def test_an_option_goes_before_a_property_before_the_file_before_the_default(
    tmp_path: Path,
) -> None:
    file = tmp_path / "p"
    file.write_text("bootstrap.servers=file:1\nacks=1\nlinger.ms=1\nclient.id=mine")
    assert str(producer_settings(None, None, (), "d").bootstrap_servers[0]) == "localhost:9092"
    assert str(producer_settings(None, file, (), "d").bootstrap_servers[0]) == "file:1"
    given = producer_settings(
        "option:3",
        file,
        ["bootstrap.servers=property:2", "linger_ms=2", "compression.type=gzip"],
        "d",
        compression_type="lz4",
        acks=None,
    )
    assert str(given.bootstrap_servers[0]) == "option:3"
    assert (given.linger_ms, given.acks, given.compression_type) == (2, 1, "lz4")
    assert given.client_id == "mine"


def test_serializers_of_java_are_left_out_and_others_are_not(tmp_path: Path) -> None:
    java = "org.apache.kafka.common.serialization.ByteArraySerializer"
    pairs = [f"key.serializer={java}", f"value.serializer={java}"]
    assert producer_settings(None, None, pairs, "d").key_serializer is None
    with pytest.raises(click.UsageError, match=r"value\.serializer"):
        producer_settings(None, None, ["value.serializer=no.such.Thing"], "d")


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("lingr.ms=5", "did you mean linger.ms"),
        ("acks=2", "must be all, -1, 0 or 1"),
        ("bootstrap.servers=nowhere", "must be host:port"),
        ("sasl.jaas.config=secret", "sasl.jaas.config is refused"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(pair: str, told: str) -> None:
    with pytest.raises(click.UsageError, match=told) as raised:
        producer_settings(None, None, [pair], "d")
    assert "secret" not in str(raised.value)
