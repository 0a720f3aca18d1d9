"""Settings as the consoles of Kafka's vendors print them: each file makes a configuration as it is.

All names, keys and secrets in the files are invented.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.security.sasl_settings import SaslSettings
from fastprod.security.secret import Secret
from fastprod.settings.properties_file import parse_properties

FILES = Path(__file__).parent / "vendor_files"
KEY = "INVENTEDKEY12345"
SECRET = "invented/Secret+for-tests="
# As each vendor's page for kafka-python has it.
KAFKA_PYTHON: dict[str, dict[str, Any]] = {
    "confluent_cloud": {
        "bootstrap_servers": "pkc-e8mp5.eu-west-1.aws.example.cloud:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": KEY,
        "sasl_plain_password": SECRET,
        "ssl_check_hostname": True,
        "ssl_cafile": None,
    },
    "redpanda": {
        "bootstrap_servers": ["seed-invented.any.eu-central-1.mpx.prd.example.com:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": KEY,
        "sasl_plain_password": SECRET,
    },
}


def sasl_of(settings: dict[str, Any]) -> SaslSettings:
    config = ProducerConfig(settings)
    assert config.tls is not None
    assert (config.tls.verify, config.tls.check_host_name, config.tls.ca) == (True, True, None)
    assert config.sasl is not None
    for shown in (repr(config), repr(config.sasl), str(config.values()), str(vars(config))):
        assert SECRET not in shown
    assert SECRET.encode() not in pickle.dumps(config)
    assert pickle.loads(pickle.dumps(config)).sasl == config.sasl
    # As a producer's pickle does.
    again = ProducerConfig({name: getattr(config, name) for name in config.explicit})
    assert (again.sasl, again.explicit) == (config.sasl, config.explicit)
    return config.sasl


def sasl_of_file(name: str) -> SaslSettings:
    return sasl_of(dict(parse_properties((FILES / f"{name}.properties").read_text())))


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("confluent_cloud_java", "PLAIN"),
        ("confluent_cloud_librdkafka", "PLAIN"),
        ("msk_scram_java", "SCRAM-SHA-512"),
        ("redpanda_java", "SCRAM-SHA-256"),
        ("redpanda_librdkafka", "SCRAM-SHA-256"),
    ],
)
def test_a_file_with_name_and_password_works_as_it_is(name: str, mechanism: str) -> None:
    assert sasl_of_file(name) == SaslSettings(mechanism, username=KEY, password=Secret(SECRET))


@pytest.mark.parametrize("vendor", KAFKA_PYTHON)
def test_keyword_arguments_of_kafka_python_work_as_they_are(vendor: str) -> None:
    settings = KAFKA_PYTHON[vendor]
    assert sasl_of(settings) == SaslSettings(
        settings["sasl_mechanism"], username=KEY, password=Secret(SECRET)
    )


@pytest.mark.parametrize("name", ["confluent_cloud_oauth_java", "confluent_cloud_oauth_librdkafka"])
def test_a_file_with_a_token_endpoint_works_as_it_is(name: str) -> None:
    sasl = sasl_of_file(name)
    assert sasl.mechanism == "OAUTHBEARER"
    assert sasl.extensions == {
        "logicalCluster": "lkc-invented",
        "identityPoolId": "pool-invented",
    }
    endpoint = sasl.token_endpoint
    assert endpoint is not None
    assert endpoint.url == "https://login.example.com/oauth2/v2.0/token"
    assert (endpoint.client_id, endpoint.client_secret) == (KEY, SECRET)
    assert endpoint.scope == "api://invented/.default"


@pytest.mark.parametrize(
    ("name", "profile"), [("msk_iam_java", "invented"), ("msk_iam_oauth_java", "")]
)
def test_a_file_for_msk_with_iam_works_as_it_is(name: str, profile: str) -> None:
    sasl = sasl_of_file(name)
    assert sasl.mechanism == "AWS_MSK_IAM"
    assert sasl.aws is not None
    assert sasl.aws.profile == profile


def test_a_file_for_event_hubs_works_as_it_is() -> None:
    sasl = sasl_of_file("event_hubs_java")
    assert sasl.username == "$ConnectionString"
    assert sasl.password is not None
    assert sasl.password.reveal().startswith("Endpoint=sb://invented.")
    assert sasl.password.endswith(f";SharedAccessKey={SECRET}")
