"""fastprod.config: defaults, both spellings, and the settings that depend on each other."""

from __future__ import annotations

import dataclasses
import logging
import pickle
import re
from typing import Any

import pytest

from fastprod.config import SETTINGS, ProducerConfig, describe
from fastprod.errors import ConfigError

# Defaults of Apache Kafka 4.3.0's ProducerConfig; ours differ where design.md says so.
KAFKA_DEFAULTS: dict[str, Any] = {
    "transaction.timeout.ms": 60000,
    "transactional.id": None,
    "acks": "all",
    "buffer.memory": 33554432,
    "client.dns.lookup": "use_all_dns_ips",
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.type": "none",
    "compression.zstd.level": 3,
    "connections.max.idle.ms": 540000,
    "delivery.timeout.ms": 120000,
    "enable.idempotence": True,
    "interceptor.classes": (),
    "max.block.ms": 60000,
    "max.in.flight.requests.per.connection": 5,
    "max.request.size": 1048576,
    "metadata.max.age.ms": 300000,
    "metadata.max.idle.ms": 300000,
    "metadata.recovery.rebootstrap.trigger.ms": 300000,
    "metadata.recovery.strategy": "rebootstrap",
    "metrics.num.samples": 2,
    "metrics.recording.level": "INFO",
    "metrics.sample.window.ms": 30000,
    "partitioner.adaptive.partitioning.enable": True,
    "partitioner.availability.timeout.ms": 0,
    "partitioner.class": None,
    "partitioner.ignore.keys": False,
    "receive.buffer.bytes": 32768,
    "reconnect.backoff.max.ms": 1000,
    "reconnect.backoff.ms": 50,
    "request.timeout.ms": 30000,
    "retries": 2147483647,
    "retry.backoff.max.ms": 1000,
    "retry.backoff.ms": 100,
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": 60000,
    "sasl.kerberos.ticket.renew.jitter": 0.05,
    "sasl.kerberos.ticket.renew.window.factor": 0.8,
    "sasl.login.connect.timeout.ms": None,
    "sasl.login.read.timeout.ms": None,
    "sasl.login.refresh.buffer.seconds": 300,
    "sasl.login.refresh.min.period.seconds": 60,
    "sasl.login.refresh.window.factor": 0.8,
    "sasl.login.refresh.window.jitter": 0.05,
    "sasl.login.retry.backoff.max.ms": 10000,
    "sasl.login.retry.backoff.ms": 100,
    "sasl.mechanism": "GSSAPI",
    "sasl.oauthbearer.assertion.file": None,
    "sasl.oauthbearer.client.credentials.client.id": "",
    "sasl.oauthbearer.header.urlencode": False,
    "sasl.oauthbearer.scope": "",
    "sasl.oauthbearer.token.endpoint.url": "",
    "security.protocol": "PLAINTEXT",
    "send.buffer.bytes": 131072,
    "socket.connection.setup.timeout.max.ms": 30000,
    "socket.connection.setup.timeout.ms": 10000,
    "ssl.cipher.suites": (),
    "ssl.enabled.protocols": ("TLSv1.2", "TLSv1.3"),
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.keystore.location": None,
    "ssl.protocol": "TLSv1.3",
    "ssl.truststore.location": None,
}
OUR_DEFAULTS: dict[str, Any] = {
    "batch.size": 262144,
    "enable.metrics.push": False,
    "linger.ms": "adaptive",
    "metric.reporters": (),
    "sasl.kerberos.service.name": "kafka",
    "ssl.keystore.type": "",
    "ssl.truststore.type": "",
}
OURS_ALONE = {
    "enable.sasl.oauthbearer.unsecure.jwt": False,
    "enable.ssl.certificate.verification": True,
    "https.ca.location": None,
    "key.serializer.encoding": None,
    "max.receive.bytes": 104857600,
    "sasl.authorization.id": "",
    "sasl.aws.external.id": "",
    "sasl.aws.profile": "",
    "sasl.aws.region": "",
    "sasl.aws.role.arn": "",
    "sasl.aws.role.session.name": "",
    "sasl.aws.sts.region": "",
    "sasl.extensions": (),
    "sasl.kerberos.domain.name": "",
    "sasl.kerberos.keytab": None,
    "sasl.kerberos.principal": "",
    "sasl.oauth.token.provider": None,
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.username": "",
    "ssl.certificate.location": None,
    "ssl.context": None,
    "ssl.crl.location": None,
    "ssl.key.location": None,
    "serializer.encoding": None,
    "value.serializer.encoding": None,
    "warmup.topics": (),
}


def config(**settings: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="h:1", **settings)


def refused(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**settings)
    assert pickle.loads(pickle.dumps(caught.value)).key == caught.value.key
    return str(caught.value)


def test_defaults_are_kafkas_but_for_those_of_the_design() -> None:
    values = ProducerConfig(bootstrap_servers="h:1", client_id="c").values()
    assert values == {
        **KAFKA_DEFAULTS,
        **OUR_DEFAULTS,
        **OURS_ALONE,
        "bootstrap.servers": ["h:1"],
        "client.id": "c",
        "key.serializer": None,
        "value.serializer": None,
    }


def test_both_spellings_mean_the_same() -> None:
    """P-B.1: and it is kept which settings the caller gave."""
    dotted = {"bootstrap.servers": "h:1", "linger.ms": "7", "acks": "all", "client.id": "c"}
    under = ProducerConfig(bootstrap_servers="h:1", linger_ms=7, acks=-1, client_id="c")
    assert ProducerConfig(dotted) == under
    assert ProducerConfig({"linger_ms": 7, "client.id": "c"}, bootstrap_servers=["h:1"], acks="-1")
    assert under.explicit == {"bootstrap_servers", "linger_ms", "acks", "client_id"}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"linger.ms": 1, "linger_ms": 1}, {}),
        ({"linger.ms": 1}, {"linger_ms": 1}),
        ({"linger_ms": 1}, {"linger_ms": 1}),
    ],
)
def test_a_setting_given_twice_is_refused(settings: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"linger_ms is given twice \(also as linger[._]ms\)"):
        ProducerConfig({"bootstrap.servers": "h:1", **settings}, **more)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("linger", "linger_ms"),
        ("batch_sise", "batch_size"),
        ("max.in.flight.requests", "max.in.flight.requests.per.connection"),
        ("compresion.type", "compression.type"),
        ("bootstrap_server", "bootstrap_servers"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_in_the_same_spelling(
    key: str, nearest: str
) -> None:
    assert refused(**{key: 1}) == f"{key} is not a setting; did you mean {nearest}?"


def test_an_unknown_setting_without_a_near_one_points_to_the_list() -> None:
    assert "describe()" in refused(qqqqqq=1)


def test_a_name_that_is_no_str_is_refused() -> None:
    keys: Any = {5: 1}
    with pytest.raises(ConfigError, match="must be a str, not int"):
        ProducerConfig(keys, bootstrap_servers="h:1")


def test_settings_that_are_no_mapping_are_refused_with_the_way_to_give_brokers() -> None:
    address: Any = "host:9092"
    with pytest.raises(ConfigError, match="not str; brokers are given as bootstrap_servers="):
        ProducerConfig(address)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        ProducerConfig()
    with pytest.raises(ConfigError, match="names no broker"):
        ProducerConfig(bootstrap_servers="")


@pytest.mark.parametrize(
    "key",
    [
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.jaas.config",
        "ssl.truststore.password",
        "sasl.password",
        "ssl.engine.id",
        "transaction.two.phase.commit.enable",
        "client.rack",
        "sasl_pasword_misspelt",
        "pasword_misspelt",
    ],
)
def test_settings_of_missing_features_are_refused_by_name_and_never_show_their_value(
    key: str,
) -> None:
    """P-B.8, P-B.9."""
    with pytest.raises(ConfigError) as caught:
        config(**{key: "hunter2-secret"})
    assert key in str(caught.value)
    assert caught.value.key == key
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(vars(caught.value))


def test_a_missing_feature_that_is_left_off_is_no_error() -> None:
    assert config(transactional_id=None).explicit == {"bootstrap_servers"}
    assert config(ssl_key_password=None).tls is None
    assert config(transaction_two_phase_commit_enable=False).acks == -1
    assert config(enable_metrics_push=False, security_protocol="plaintext").security_protocol == (
        "PLAINTEXT"
    )


def test_protection_without_its_protocol_is_refused_rather_than_sent_in_the_clear() -> None:
    text = refused(sasl_username="u", sasl_password="hunter2-secret")
    assert "give security_protocol='SASL_SSL'" in text
    assert "hunter2" not in text
    assert "give security_protocol='SSL'" in refused(ssl_truststore_location="ca.pem")


def test_telemetry_is_refused() -> None:
    assert "KIP-714" in refused(enable_metrics_push=True)


def test_client_ids_are_numbered_from_one_on_in_the_process() -> None:
    """P-A.1.2: and the generated id is among the values that plug-ins get."""
    first, second = config(), config()
    numbers = []
    for each in (first, second):
        found = re.fullmatch(r"producer-([1-9][0-9]*)", each.client_id)
        assert found
        numbers.append(int(found.group(1)))
        assert each.values()["client.id"] == each.client_id
    assert numbers[1] == numbers[0] + 1


def test_a_config_that_fails_uses_no_number() -> None:
    before = int(config().client_id.rpartition("-")[2])
    refused(batch_size=-1)
    assert int(config(client_id=None).client_id.rpartition("-")[2]) == before + 1
    assert config(client_id=" mine ").client_id == "mine"


@pytest.mark.parametrize(
    ("settings", "idempotent", "acks"),
    [
        ({}, True, -1),
        ({"acks": "1"}, False, 1),
        ({"acks": "0"}, False, 0),
        ({"retries": 0}, False, -1),
        ({"enable_idempotence": True, "acks": "all"}, True, -1),
        ({"enable_idempotence": False, "acks": 1, "retries": 0}, False, 1),
        (
            {"enable_idempotence": False, "max_in_flight_requests_per_connection": 6},
            False,
            -1,
        ),
        ({"max_in_flight_requests_per_connection": 5}, True, -1),
    ],
)
def test_idempotence_gives_way_silently_when_it_was_not_asked_for(
    settings: dict[str, Any], idempotent: bool, acks: int, caplog: pytest.LogCaptureFixture
) -> None:
    """P-B.2; P-L.1-4."""
    found = config(**settings)
    assert (found.enable_idempotence, found.acks) == (idempotent, acks)
    assert not [each for each in caplog.records if each.name == "fastprod.config"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"enable_idempotence": True, "acks": "1"}, "acks"),
        ({"enable_idempotence": True, "acks": "0"}, "acks"),
        ({"enable_idempotence": True, "retries": 0}, "retries"),
        (
            {"max_in_flight_requests_per_connection": 6},
            "max_in_flight_requests_per_connection",
        ),
        (
            {"max_in_flight_requests_per_connection": 6, "acks": 1},
            "max_in_flight_requests_per_connection",
        ),
        (
            {"max_in_flight_requests_per_connection": 6, "retries": 0},
            "max_in_flight_requests_per_connection",
        ),
        (
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True, "acks": 1},
            "acks",
        ),
    ],
)
def test_idempotence_in_conflict_with_another_setting_is_refused(
    settings: dict[str, Any], key: str
) -> None:
    """P-B.2 as Apache Kafka 4.3.0 resolves it (each row was run there); P-L.2-4."""
    assert refused(**settings).startswith(f"{key} = ")


def test_delivery_timeout_covers_linger_and_request() -> None:
    """P-B.3, P-L.5 (4.3.0 allows equality)."""
    text = refused(delivery_timeout_ms=1000, linger_ms=1000, request_timeout_ms=1)
    assert "must be at least linger_ms + request_timeout_ms = 1000 + 1 = 1001" in text
    assert config(delivery_timeout_ms=1000, linger_ms=999, request_timeout_ms=1).linger_ms == 999
    assert refused(delivery_timeout_ms=29_999, request_timeout_ms=29_995, linger_ms="adaptive")
    assert config(delivery_timeout_ms=30_000, request_timeout_ms=29_995).linger_ms is None


def test_a_default_delivery_timeout_is_raised_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-B.3."""
    with caplog.at_level(logging.WARNING, "fastprod.config"):
        found = config(request_timeout_ms=200_000, linger_ms=10)
    assert found.delivery_timeout_ms == 200_010
    assert "raised from its default 120000" in caplog.text
    assert "delivery_timeout_ms" not in found.explicit


def test_the_sum_of_linger_and_request_saturates() -> None:
    """P-B.3."""
    found = config(linger_ms=2**63 - 1, delivery_timeout_ms=2**31 - 1)
    assert (found.linger_ms, found.delivery_timeout_ms) == (2**31 - 1, 2**31 - 1)


def test_linger_is_adaptive_by_default_and_exact_as_a_number() -> None:
    assert config().linger_ms is None
    assert config(linger_ms="adaptive").linger_ms is None
    assert config(linger_ms=0).linger_ms == 0


def test_backoff_pairs() -> None:
    """P-B.5: an explicit base without a maximum does not grow."""
    alone = config(reconnect_backoff_ms=2000)
    assert (alone.reconnect_backoff_ms, alone.reconnect_backoff_max_ms) == (2000, 2000)
    small = config(reconnect_backoff_ms=20)
    assert (small.reconnect_backoff_ms, small.reconnect_backoff_max_ms) == (20, 20)
    both = config(reconnect_backoff_ms=20, reconnect_backoff_max_ms=500)
    assert (both.reconnect_backoff_ms, both.reconnect_backoff_max_ms) == (20, 500)


@pytest.mark.parametrize(
    ("base", "limit"),
    [
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ],
)
def test_a_base_above_its_maximum_counts_as_the_maximum_with_a_warning(
    base: str, limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P-B.5."""
    found = config(**{base: 2000, limit: 500})
    assert (getattr(found, base), getattr(found, limit)) == (500, 500)
    assert f"{base} = 2000 is above {limit} = 500" in caplog.text


def test_a_batch_size_of_zero_means_one_record_a_batch() -> None:
    """P-A.1.6."""
    assert config(batch_size=0).batch_size == 1


def test_a_small_buffer_memory_is_legal_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """P-B.4."""
    assert config(buffer_memory=100_000).buffer_memory == 100_000
    assert "buffer_memory = 100000 is less than batch_size = 262144" in caplog.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"batch_size": -1}, "batch_size = -1: must be an integer 0..2,147,483,647"),
        ({"retries": "9999999999"}, "retries = '9999999999': must be an integer 0..2,147,483,647"),
        ({"buffer.memory": "lots"}, "buffer.memory = 'lots': must be an integer >= 0"),
        (
            {"metadata_max_idle_ms": 4_999},
            "metadata_max_idle_ms = 4999: must be an integer >= 5000",
        ),
        (  # no connection would live long enough to be used; librdkafka's 0 is our -1
            {"connections_max_idle_ms": 0},
            "connections_max_idle_ms = 0: must be an integer -1 or >= 1",
        ),
        (
            {"compression_gzip_level": 0},
            "compression_gzip_level = 0: must be an integer -1 or 1..9",
        ),
        (
            {"compression_zstd_level": 23},
            "compression_zstd_level = 23: must be an integer -131,072..22",
        ),
        (
            {"compression_type": "brotli"},
            "compression_type = 'brotli': must be one of none, gzip, snappy, lz4, zstd",
        ),
        ({"acks": "most"}, "acks = 'most': must be all, -1, 0 or 1"),
        ({"send_buffer_bytes": -2}, "send_buffer_bytes = -2: must be an integer -1..2,147,483,647"),
        (
            {"warmup_topics": 5},
            "warmup_topics = 5: must be a list or a comma-separated str of topic names",
        ),
        ({"max_receive_bytes": 0}, "max_receive_bytes = 0: must be an integer 1..2,147,483,647"),
    ],
)
def test_a_refusal_names_key_value_and_range(settings: dict[str, Any], text: str) -> None:
    assert refused(**settings) == text


def test_a_config_is_frozen_and_pickles() -> None:
    found: Any = config(linger_ms=3, interceptor_classes=["collections:Counter"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.linger_ms = 4
    twin = pickle.loads(pickle.dumps(found))
    assert twin == found
    assert twin.explicit == found.explicit
    assert hash(twin) == hash(found)


def test_the_values_make_the_same_config_again() -> None:
    found = config(acks=1, linger_ms="adaptive", compression_type="zstd")
    assert ProducerConfig(found.values()).values() == found.values()


def test_repr_shows_what_was_given() -> None:
    text = repr(config(linger_ms=3, client_id="c"))
    assert text.startswith("ProducerConfig(bootstrap_servers=(BootstrapAddress(host='h', port=1),)")
    assert text.endswith("client_id='c', linger_ms=3)")


def test_describe_has_a_complete_row_for_every_setting() -> None:
    rows = {row.name: row for row in describe()}
    assert list(rows) == list(SETTINGS)
    for row in rows.values():
        assert row.dotted_name == row.name.replace("_", ".")
        assert row.doc.endswith(".")
        assert row.range
        assert row.type
    assert rows["linger_ms"].default == "adaptive"
    assert rows["acks"].default == "all"
    assert rows["batch_size"][:5] == (
        "batch_size",
        "batch.size",
        "integer",
        "262144",
        "0..2,147,483,647",
    )


def test_every_default_is_in_its_own_range() -> None:
    for name, setting in SETTINGS.items():
        if name not in ("bootstrap_servers", "transactional_id"):  # which have none
            value = "all" if name == "acks" else setting.default
            assert setting.parse(name, value) == setting.default
