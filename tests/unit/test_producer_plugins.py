"""ProducerPlugins: made together, closed together, asked about records."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError, KafkaError
from fastprod.producer_plugins import ProducerPlugins
from fastprod.records import ProducerRecord


class Interceptor:
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Serializer:
    """Adds its name; cannot be closed."""

    def serialize(self, topic: str, data: Any) -> bytes:
        return b"%s in %s" % (data, topic.encode())

    def close(self) -> None:
        raise OSError("not now")


def made(**settings: Any) -> ProducerPlugins:
    plugins = ProducerPlugins()
    plugins.make(ProducerConfig(bootstrap_servers="127.0.0.1:1", **settings))
    return plugins


def test_without_plug_ins_no_record_is_looked_at() -> None:
    plugins = made()
    assert not plugins.see_records
    assert plugins.serialize(ProducerRecord("t", b"v", b"k")) == (b"k", b"v")


def test_a_serializer_gets_its_field_of_the_record() -> None:
    plugins = made(value_serializer=Serializer())
    assert plugins.see_records
    assert plugins.serialize(ProducerRecord("t", b"v", b"k")) == (b"k", b"v in t")


@pytest.mark.parametrize("quietly", [True, False])
def test_all_are_closed_whatever_one_raises(quietly: bool) -> None:
    interceptor = Interceptor()
    plugins = made(interceptor_classes=[interceptor], key_serializer=Serializer())
    assert not plugins.is_closed
    if quietly:
        plugins.close(quietly=True)
    else:
        with pytest.raises(KafkaError, match="Failed to close"):
            plugins.close(quietly=False)
    assert plugins.is_closed
    assert interceptor.closed == 1


def test_those_before_one_that_cannot_be_made_can_be_closed() -> None:
    interceptor = Interceptor()
    plugins = ProducerPlugins()
    config = ProducerConfig(
        bootstrap_servers="127.0.0.1:1", interceptor_classes=[interceptor], partitioner_class=len
    )
    with pytest.raises(ConfigError):
        plugins.make(config)
    plugins.close(quietly=True)
    assert interceptor.closed == 1
