"""SinkOptions."""

from __future__ import annotations

import pickle

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.spark.sink.options import BULK_SETTINGS, sink_options

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_settings_are_the_bulk_defaults_and_what_is_given() -> None:
    options = sink_options({**BOOTSTRAP, "kafka.linger.ms": "7"})
    assert dict(options.settings) == {
        **BULK_SETTINGS,
        "bootstrap.servers": "127.0.0.1:9092",
        "linger.ms": "7",
    }
    options.check_settings()


def test_a_setting_by_another_of_its_names_is_given_once() -> None:
    options = sink_options(
        {
            "kafka.metadata.broker.list": "127.0.0.1:9092",
            "kafka.batch_size": "1000",
            "kafka.linger_ms": "7",
        }
    )
    options.check_settings()
    config = ProducerConfig(dict(options.settings))
    assert (config.batch_size, config.linger_ms) == (1000, 7)
    assert [str(each) for each in config.bootstrap_servers] == ["127.0.0.1:9092"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("partitioner.class", "fastprod.partitioner:RoundRobinPartitioner"),
        ("interceptor.classes", "fastprod.interceptors:ProducerInterceptor"),
        ("max.block.ms", "5000"),
        ("batch.size", "1000"),
    ],
)
def test_a_setting_with_underscores_means_the_same(setting: str, value: str) -> None:
    dotted = sink_options({**BOOTSTRAP, f"kafka.{setting}": value})
    underscored = sink_options({**BOOTSTRAP, f"kafka.{setting.replace('.', '_')}": value})
    assert underscored == dotted
    assert underscored.has_plugins == (setting in ("partitioner.class", "interceptor.classes"))


def test_a_setting_by_dots_and_by_underscores_has_one_value() -> None:
    sink_options({**BOOTSTRAP, "kafka.sasl_password": "hunter2", "kafka.sasl.password": "hunter2"})
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.password is given twice") as raised:
        sink_options({**BOOTSTRAP, "kafka.sasl_password": "hunter2", "kafka.sasl.password": "x"})
    assert "hunter2" not in str(raised.value)


def test_options_survive_pickling_and_are_the_same_whatever_their_order() -> None:
    one = sink_options({**BOOTSTRAP, "kafka.acks": "1", "topic": " t "})
    other = sink_options({"topic": "t", "kafka.acks": "1", **BOOTSTRAP})
    assert pickle.loads(pickle.dumps(one)) == one == other
    assert hash(one) == hash(other)


def test_constants_and_columns_of_headers_are_told_apart() -> None:
    options = sink_options({"header.a": "1", "header.column.b": "B", "header.columns": "x"})
    assert options.headers == (("a", b"1"), ("columns", b"x"))
    assert options.header_columns == (("b", "B"),)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topik": "t"}, "topik is not an option of this sink; did you mean topic?"),
        ({"header.": "x"}, "header. is not an option"),
        ({"header.column.": "x"}, "header.column. is not an option"),
        ({"guarantee": "exactly_once"}, "must be one of at_least_once in this version"),
        ({"fastprod.on.error": "dead_letter"}, "must be one of fail in this version"),
        ({"fastprod.job.id": "x"}, "belongs to guarantee=exactly_once"),
        ({"fastprod.max.bytes.per.second": "-1"}, "must be a whole number of bytes, 0 or more"),
        ({"fastprod.max.bytes.per.second": "1e6"}, "must be a whole number of bytes"),
        ({"fastprod.validate": "yes"}, "must be true or false"),
        ({"kafka.key.serializer": "x"}, "keys are serialized with ByteArraySerializer."),
        ({"kafka.key_serializer": "x"}, "keys are serialized with ByteArraySerializer."),
        ({"kafka.value.serializer": "x"}, "value are serialized with ByteArraySerializer."),
    ],
)
def test_an_option_that_is_not_understood_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sink_options(given)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("lingr.ms", "5", "did you mean linger.ms?"),
        ("sasl.jaas.config", "secret", "it has no flag"),
        ("ssl.truststore.location", "store.jks", "turn it into PEM: keytool"),
        ("ssl.keystore.location", "store.p12", "turn it into PEM: openssl pkcs12"),
        ("sasl.login.class", "org.example.Secret", "it names a Java class"),
        ("partitioner.class", "org.example.Secret", "a Java class cannot run in a Python process"),
        ("partitioner_class", "org.example.Secret", "a Java class cannot run in a Python process"),
        ("interceptor.classes", "a.B, org.example.Secret", "a Java class cannot run"),
        ("security.protocol", "foo", "security.protocol"),
        ("transactional.id", "x", "transactional.id is refused"),
    ],
)
def test_a_setting_that_cannot_be_had_is_refused_without_showing_secrets(
    setting: str, value: str, text: str
) -> None:
    given = {**BOOTSTRAP, "kafka.security.protocol": "SSL", f"kafka.{setting}": value}
    options = sink_options(given)
    with pytest.raises(ConfigError) as raised:
        options.check_settings()
    assert text in str(raised.value)
    assert "ecret" not in str(raised.value)
    assert "ecret" not in repr(options)


def test_a_missing_bootstrap_address_is_told_before_anything_else_about_settings() -> None:
    with pytest.raises(ConfigError, match=r"Kafka option bootstrap.servers is not set\."):
        sink_options({"kafka.lingr.ms": "5"}).check_settings()


def test_javas_round_robin_partitioner_is_ours() -> None:
    java = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    options = sink_options({**BOOTSTRAP, "kafka.partitioner.class": java})
    options.check_settings()
    assert dict(options.settings)["partitioner.class"].startswith("fastprod.partitioner:")


def test_a_setting_of_the_producer_may_stand_in_the_drivers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", 'hunter2"x')
    line = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    given = {
        **BOOTSTRAP,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{line} username="ada" password="${{env:KAFKA_PASSWORD}}";',
    }
    options = sink_options(given)
    options.check_settings()
    monkeypatch.delenv("KAFKA_PASSWORD")
    settings = dict(pickle.loads(pickle.dumps(options)).settings)
    sasl = ProducerConfig(settings).sasl
    assert sasl is not None
    assert sasl.password == 'hunter2"x'
    assert "hunter2" not in repr(settings)


def test_settings_by_themselves_show_no_secret_either() -> None:
    """S13: PySpark can print the local variables of a failing frame."""
    given = {"kafka.bootstrap.servers": "a:1", "kafka.ssl.key.password": "hunter2"}
    options = sink_options(given)
    for settings in (options.settings, pickle.loads(pickle.dumps(options)).settings):
        assert "hunter2" not in repr(settings)
        assert "hunter2" not in repr(dict(settings))
        assert dict(settings)["ssl.key.password"] == "hunter2"
