"""What `Broker` refuses, and how it takes its topics."""

from __future__ import annotations

import datetime
import enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastprod.broker.arguments import (
    check_addresses,
    check_refusals,
    first_topics,
    folder_of,
    topic_settings,
    whole_number,
)
from fastprod.broker.broker import Broker
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
    assert folder_of(None, True) is None
    assert folder_of("data", False) == folder_of(Path("data"), False) == Path("data")
    wrong: Any
    for wrong, discard in (("data", True), ("", False), (b"data", False), (5, False)):
        with pytest.raises(ConfigError):
            folder_of(wrong, discard)


def test_a_folders_name_that_is_more_than_text_is_the_text_that_it_holds() -> None:
    class Folders(str, enum.Enum):  # noqa: UP042
        LOGS = "logs"

    assert folder_of(Folders.LOGS, False) == Path("logs")


def test_topics_come_with_or_without_their_partitions() -> None:
    assert first_topics({"a": 2}) == {"a": 2}
    assert first_topics(iter(["a", "b"])) == {"a": -1, "b": -1}
    for wrong in ("abc", [1], {"a": True}, 5):
        with pytest.raises(ConfigError):
            first_topics(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("advertised_host", 5),
        ("versions", ["Produce"]),
        ("sasl_users", ["ada"]),
        ("sasl_users", "ada"),
        ("oauth_validator", "ada"),
        ("tls", "false"),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(name: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=name) as raised:
        Broker(**{name: given})
    assert raised.value.key == name


def test_whole_numbers_may_be_numpys() -> None:
    found = whole_number("partition", np.int64(3))
    assert type(found) is int
    assert found == 3
    wrong: Any
    for wrong in (1.0, np.float64(1), "1", None, True, np.array([1, 2])):
        with pytest.raises(TypeError, match="partition must be a whole number"):
            whole_number("partition", wrong)


def test_settings_of_a_topic_are_texts() -> None:
    given = {"a": np.str_("x"), "b": np.int64(5), "c": True, "d": 0.5, "e": 7}
    found = topic_settings(given)
    assert found == {"a": "x", "b": "5", "c": "true", "d": "0.5", "e": "7"}
    assert {type(each) for each in found.values()} == {str}
    assert topic_settings(None) == {}
    wrong: Any
    for wrong in (["a"], {"a": None}, {"a": datetime.timedelta(1)}):
        with pytest.raises(TypeError, match="config"):
            topic_settings(wrong)


def test_a_refusal_comes_before_its_connection_is_idle() -> None:
    config = BrokerConfig(
        connection_failed_authentication_delay_ms=1_000, connections_max_idle_ms=1_000
    )
    check_refusals(config, ListenerSecurity())
    with pytest.raises(ConfigError):
        check_refusals(config, ListenerSecurity(None, Mechanisms("PLAIN", Users())))
