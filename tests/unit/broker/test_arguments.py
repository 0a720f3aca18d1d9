"""What `Broker` refuses, and how it takes its topics."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.arguments import check_addresses, check_folder, check_refusals, first_topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.listener_security import ListenerSecurity
from fastprod.broker.network.sasl.mechanisms import Mechanisms
from fastprod.broker.network.sasl.users import Users
from fastprod.errors import ConfigError


@pytest.mark.parametrize(
    ("brokers", "host", "port", "key"),
    [
        (0, "h", 0, "brokers"),
        (101, "h", 0, "brokers"),
        (True, "h", 0, "brokers"),
        (1, None, 0, "host"),
        (1, "h", -1, "port"),
        (2, "h", 65_535, "port"),
        (1, "h", "9092", "port"),
    ],
)
def test_addresses_that_cannot_be_are_refused(brokers: Any, host: Any, port: Any, key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_addresses(brokers, host, port)
    assert raised.value.key == key


def test_the_last_ports_are_for_the_last_nodes() -> None:
    check_addresses(2, "h", 65_534)


def test_a_folder_is_for_what_is_kept() -> None:
    check_folder(None, True)
    check_folder("data", False)
    for folder, discard in (("data", True), ("", False)):
        with pytest.raises(ConfigError):
            check_folder(folder, discard)


def test_topics_come_with_or_without_their_partitions() -> None:
    assert first_topics({"a": 2}) == {"a": 2}
    assert first_topics(iter(["a", "b"])) == {"a": -1, "b": -1}
    for wrong in ("abc", [1], {"a": True}):
        with pytest.raises(ConfigError):
            first_topics(wrong)  # type: ignore[arg-type]


def test_a_refusal_comes_before_its_connection_is_idle() -> None:
    config = BrokerConfig(
        connection_failed_authentication_delay_ms=1_000, connections_max_idle_ms=1_000
    )
    check_refusals(config, ListenerSecurity())
    with pytest.raises(ConfigError):
        check_refusals(config, ListenerSecurity(None, Mechanisms("PLAIN", Users())))
