"""BrokerConfig: names, ranges, and what it says when they are wrong."""

from __future__ import annotations

import pytest

from fastprod.broker.config import SETTINGS, BrokerConfig
from fastprod.errors import ConfigError


def test_the_defaults_are_kafkas_but_for_threads() -> None:
    """B-A1, B-A11"""
    config = BrokerConfig()
    assert config.message_max_bytes == 1_048_588
    assert config.socket_request_max_bytes == 104_857_600
    assert config.connections_max_idle_ms == 600_000
    assert config.fetch_max_bytes == 57_671_680
    assert (config.num_network_threads, config.num_io_threads) == (1, 0)


def test_a_dotted_name_is_as_good() -> None:
    assert BrokerConfig.make({"message.max.bytes": 5}).message_max_bytes == 5


def test_an_unknown_setting_is_named_with_one_that_is_spelled_like_it() -> None:
    with pytest.raises(ConfigError, match="did you mean num_partitions") as refused:
        BrokerConfig.make({"num_partition": 1})
    assert refused.value.key == "num_partition"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_partitions", 0),
        ("num_io_threads", -1),
        ("log_segment_bytes", 1),
        ("log_retention_ms", -2),
        ("fetch_wait_cap_ms", -1),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        BrokerConfig.make({name: value})
    facts = vars(refused.value)
    assert facts["value"] == value
    assert not facts["low"] <= value <= facts["high"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_partitions", "3"),
        ("num_partitions", True),
        ("auto_create_topics_enable", 1),
        ("validation", "half"),
        ("sync", None),
        ("max_connections_per_ip_overrides", 5),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig.make({name: value})


def test_a_cap_of_the_long_poll_may_be_left_out() -> None:
    assert BrokerConfig.make({"fetch_wait_cap_ms": None}).fetch_wait_cap_ms is None
    assert BrokerConfig.make({"fetch_wait_cap_ms": 20}).fetch_wait_cap_ms == 20


def test_every_setting_says_what_it_is_for() -> None:
    assert all(each.rule["doc"] for each in SETTINGS.values())


def test_a_config_is_immutable_and_has_known_settings_only() -> None:
    config = BrokerConfig(num_partitions=3)
    assert config == BrokerConfig(num_partitions=3) != BrokerConfig()
    with pytest.raises(AttributeError):
        config.num_partitions = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="num_partition"):
        BrokerConfig(num_partition=4)
