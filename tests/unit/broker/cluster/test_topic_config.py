"""Settings of topics: Kafka's names, ranges and sources (B-D4.5, B-D4.8)."""

from __future__ import annotations

import pytest

from fastprod.broker.cluster.topic_config import (
    DEFAULT,
    DYNAMIC_TOPIC,
    STATIC_BROKER,
    TOPIC_SETTINGS,
    InvalidConfigError,
    TopicConfig,
    check_value,
)
from fastprod.broker.config import BrokerConfig


def test_the_source_of_a_value_is_told() -> None:
    broker = BrokerConfig(message_max_bytes=5000)
    config = TopicConfig(broker, {"retention.ms": "7"})
    assert config.entry("retention.ms")[1:] == ("7", DYNAMIC_TOPIC)
    assert config.entry("max.message.bytes")[1:] == ("5000", STATIC_BROKER)
    assert config.entry("segment.bytes")[1:] == ("1073741824", DEFAULT)


def test_every_setting_is_listed_with_a_value_that_is_allowed() -> None:
    for entry in TopicConfig(BrokerConfig(), {}).entries():
        assert check_value(entry.setting.name, entry.value) == entry.value
    assert list(TOPIC_SETTINGS) == sorted(TOPIC_SETTINGS)


def test_every_default_of_the_broker_is_the_topics_default() -> None:
    broker = BrokerConfig()
    for setting in TOPIC_SETTINGS.values():
        if setting.broker_name:
            value = getattr(broker, setting.broker_name)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            assert text == setting.default, setting.name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.setting", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("cleanup.policy", "burn"),
        # B-C2.3: recompression is not done, so it is not promised.
        ("compression.type", "gzip"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("segment.bytes", "1000"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: str | None) -> None:
    with pytest.raises(InvalidConfigError, match=name):
        TopicConfig(BrokerConfig(), {name: value})


def test_a_value_is_brought_into_its_usual_spelling() -> None:
    assert check_value("cleanup.policy", " compact , delete") == "compact,delete"
    assert check_value("preallocate", "TRUE") == "true"
    assert check_value("retention.ms", "007") == "7"


def test_logs_of_a_topic_are_told_what_the_topic_was_told() -> None:
    config = TopicConfig(
        BrokerConfig(validation="crc", producer_batches_remembered=2),
        {
            "max.message.bytes": "100",
            "cleanup.policy": "compact",
            "message.timestamp.type": "LogAppendTime",
        },
    )
    told = config.log_config()
    assert told is config.log_config()
    assert (told.max_message_bytes, told.compact, told.log_append_time) == (100, True, True)
    assert (told.validation, told.producer_batches) == ("crc", 2)
