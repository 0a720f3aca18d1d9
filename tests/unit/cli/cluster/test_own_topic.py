"""fastprod.cli.cluster.own_topic: created, deleted in any case; see test_demo for the rest."""

from __future__ import annotations

import contextlib

import pytest

import kafka_admin
from fastprod.broker.broker import Broker
from fastprod.cli.cluster.own_topic import own_topic
from fastprod.cli.options.client_settings import ClientSettings


def topics(broker: Broker) -> list[str]:
    return sorted(kafka_admin.connected(broker.bootstrap_servers).list_topics(timeout=10).topics)


def fail_within(client: ClientSettings, broker: Broker) -> None:
    with own_topic(client, "mine", 3):
        assert topics(broker) == ["mine"]
        raise ZeroDivisionError


def test_a_topic_lasts_as_long_as_its_block_and_no_longer_when_that_fails() -> None:
    with Broker() as broker:
        client = ClientSettings("d", broker.bootstrap_servers)
        with pytest.raises(ZeroDivisionError):
            fail_within(client, broker)
        assert topics(broker) == []


def test_a_topic_that_cannot_be_deleted_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Broker())
        client = ClientSettings("d", broker.bootstrap_servers)
        with own_topic(client, "mine", 1):
            stack.close()
    assert "fastprod demo: the topic mine is left over: " in capsys.readouterr().err
