"""From settings to SaslSettings."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.sasl_settings import JWT_BEARER, SaslSettings, TokenEndpoint
from fastprod.security.secret import Secret

URL = "https://h/token"


def sasl(mechanism: str | None, **settings: Any) -> SaslSettings:
    found = ProducerConfig(
        bootstrap_servers="h:1",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        **settings,
    )
    assert found.tls is None
    assert found.sasl is not None
    return found.sasl


def refused(mechanism: str | None, **settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        sasl(mechanism, **settings)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


class Provider:
    """As kafka-python and aiokafka have them."""

    def token(self) -> str:
        return "t"


def one_argument(configuration: str) -> tuple[str, float]:
    return configuration, 1.0


async def in_a_loop() -> str:
    return "t"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"])
def test_name_and_password(mechanism: str) -> None:
    found = sasl(mechanism, sasl_username=" ada", sasl_password=" hunter2 ")
    assert found == SaslSettings(mechanism.upper(), username="ada", password=Secret(" hunter2 "))
    assert "sasl_password is missing" in refused(mechanism, sasl_username="ada")
    assert "sasl_plain_username is missing" in refused(
        mechanism, sasl_plain_username="", sasl_password="hunter2"
    )
    assert "NUL" in refused(mechanism, sasl_username="ada", sasl_password="hunter2\0")
    assert "32,767 bytes" in refused(mechanism, sasl_username="a", sasl_password="hunter2" * 9999)


def test_the_mechanism_must_be_given_with_what_kerberos_has_no_use_for() -> None:
    text = refused(None, sasl_plain_username="ada", sasl_password="hunter2")
    assert "sasl_mechanism is missing" in text
    assert "no use for sasl_plain_username" in text
    kerberos = sasl(None, sasl_kerberos_principal="ada@R").kerberos
    assert kerberos is not None
    assert (kerberos.principal, kerberos.service_name) == ("ada@R", "kafka")
    assert "must be one of GSSAPI, PLAIN" in refused("MD5")


@pytest.mark.parametrize("provider", [Provider(), Provider().token, in_a_loop])
def test_tokens_of_a_function_or_an_object(provider: Any) -> None:
    assert sasl("OAUTHBEARER", sasl_oauth_token_provider=provider).token_callback == provider


def test_tokens_of_a_class_or_of_a_function_with_one_argument() -> None:
    made: Any = sasl("OAUTHBEARER", sasl_oauth_token_provider=Provider).token_callback
    assert made.token() == "t"
    found = sasl("OAUTHBEARER", oauth_cb=one_argument, sasl_oauthbearer_config="hunter2")
    callback: Any = found.token_callback
    assert callback() == ("hunter2", 1.0)
    assert "hunter2" not in repr(callback) + repr(found) + repr(vars(callback))
    assert pickle.loads(pickle.dumps(found)).token_callback() == ("hunter2", 1.0)
    assert "must be a function that returns a token" in refused("OAUTHBEARER", oauth_cb=5)


def test_tokens_without_a_signature_as_librdkafka_makes_them() -> None:
    found = sasl(
        "OAUTHBEARER",
        enable_sasl_oauthbearer_unsecure_jwt=True,
        sasl_oauthbearer_config="principal=ada principalClaimName=azp scope=a,b extension_x=1",
    )
    callback: Any = found.token_callback
    assert callback.claims == {"azp": "ada", "scope": ["a", "b"]}
    assert found.extensions == {"x": "1"}
    unsecure: dict[str, Any] = {"enable_sasl_oauthbearer_unsecure_jwt": True}
    assert "sasl_oauthbearer_config is missing" in refused("OAUTHBEARER", **unsecure)
    for text in ("hunter2", "scope=hunter2", "principal=ada lifeSeconds=hunter2"):
        refused("OAUTHBEARER", sasl_oauthbearer_config=text, **unsecure)


def test_a_token_endpoint() -> None:
    found = sasl(
        "OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=URL,
        sasl_oauthbearer_client_id="ada",
        sasl_oauthbearer_client_secret="hunter2",
        sasl_login_connect_timeout_ms="1500",
        sasl_login_refresh_window_factor="0.5",
        https_ca_location="/ca.pem",
    )
    endpoint = found.token_endpoint
    assert endpoint is not None
    assert endpoint.ca is not None
    assert (endpoint.client_secret, endpoint.connect_timeout_s) == ("hunter2", 1.5)
    assert (endpoint.read_timeout_s, endpoint.retry_backoff_max_s) == (None, 10.0)
    assert found.refresh.window_factor == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_oauthbearer_token_endpoint_url": "file:///var/run/token"},
        {
            "sasl_oauthbearer_token_endpoint_url": URL,
            "sasl_oauthbearer_grant_type": JWT_BEARER,
            "sasl_oauthbearer_assertion_file": "/var/run/assertion",
        },
        {
            "sasl_oauthbearer_token_endpoint_url": URL,
            "sasl_oauthbearer_client_id": "ada",
            "sasl_oauthbearer_assertion_file": "/var/run/assertion",
        },
    ],
)
def test_a_token_or_an_assertion_in_a_file(settings: dict[str, Any]) -> None:
    assert isinstance(sasl("OAUTHBEARER", **settings).token_endpoint, TokenEndpoint)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "OAUTHBEARER has nowhere to get tokens from"),
        ({"sasl_oauthbearer_token_endpoint_url": "h/t"}, "must begin with https://"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://[::1/t"}, "must be a URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://h:x/t"}, "must be a URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https:///t"}, "must be a URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://h/a b"}, "must be a URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://h/\u00fc"}, "must be a URL"),
        ({"sasl_oauthbearer_token_endpoint_url": f"https://{'h' * 64}/t"}, "must be a URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://a:hunter2@h/t"}, "has a user in it"),
        ({"sasl_oauthbearer_token_endpoint_url": URL}, "client_id is missing"),
        (
            {"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_client_id": "ada"},
            "client_secret is missing",
        ),
        (
            {
                "sasl_oauthbearer_token_endpoint_url": URL,
                "sasl_oauthbearer_grant_type": JWT_BEARER,
            },
            "assertion_file is missing",
        ),
        ({"sasl_extensions": "hunter2"}, "OAUTHBEARER has nowhere"),
        ({"sasl_extensions": {"hunter2": 1}}, "a comma-separated str of name=value"),
        ({"sasl_login_refresh_window_factor": 0.4}, "must be 0.5..1.0"),
        ({"sasl_login_refresh_window_jitter": "nan"}, "must be 0.0..0.25"),
    ],
)
def test_what_lacks_something_is_refused(settings: dict[str, Any], text: str) -> None:
    assert text in refused("OAUTHBEARER", **settings)


def test_aws() -> None:
    aws = sasl("AWS_MSK_IAM", sasl_aws_region="eu-west-1").aws
    assert aws is not None
    assert (aws.region, aws.role_arn) == ("eu-west-1", "")


def test_settings_that_the_protocol_does_not_use_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="fastprod.config")
    config = ProducerConfig(
        bootstrap_servers="h:1", security_protocol="PLAINTEXT", sasl_plain_password="hunter2"
    )
    assert config.sasl is None
    assert "sasl_plain_password is given, but security_protocol=PLAINTEXT" in caplog.text
    assert "hunter2" not in caplog.text
