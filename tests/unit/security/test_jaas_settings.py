"""fastprod.security.jaas_settings: what a line means, and what it cannot."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.sasl_settings import SaslSettings
from fastprod.security.secret import Secret

KAFKA = "org.apache.kafka.common.security"
PLAIN = f"{KAFKA}.plain.PlainLoginModule"
SCRAM = f"{KAFKA}.scram.ScramLoginModule"
BEARER = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"


def sasl(mechanism: str, line: str, **more: Any) -> SaslSettings:
    found = ProducerConfig(
        {"sasl.jaas.config": line, "sasl.mechanism": mechanism},
        bootstrap_servers="h:1",
        security_protocol="SASL_SSL",
        **more,
    ).sasl
    assert found is not None
    return found


def refused(mechanism: str, line: str, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        sasl(mechanism, line, **more)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(vars(caught.value))
    return str(caught.value)


@pytest.mark.parametrize("package", ["", "kafkashaded."])
def test_name_and_password(package: str) -> None:
    line = f'{package}{PLAIN} required username="ada" password="p;=\\"q";'
    assert sasl("PLAIN", line) == SaslSettings("PLAIN", username="ada", password=Secret('p;="q'))


def test_scram_with_a_delegation_token() -> None:
    line = f'{SCRAM} required username="ada" password="hunter2" tokenauth="true";'
    assert sasl("SCRAM-SHA-256", line).extensions == {"tokenauth": "true"}
    assert sasl("SCRAM-SHA-256", line.replace("true", "false")).extensions == {}


def test_client_credentials_with_the_authority_of_the_endpoint() -> None:
    line = (
        f'{BEARER} required clientId="ada" clientSecret="hunter2" scope="a b" '
        f'ssl.truststore.location="/ca.pem" ssl.truststore.type="PEM" extension_x="1";'
    )
    found = sasl("OAUTHBEARER", line, sasl_oauthbearer_token_endpoint_url="https://h/t")
    endpoint = found.token_endpoint
    assert endpoint is not None
    assert endpoint.ca is not None
    assert (endpoint.client_id, endpoint.client_secret) == ("ada", "hunter2")
    assert (endpoint.scope, endpoint.ca.path) == ("a b", "/ca.pem")
    assert found.extensions == {"x": "1"}


def test_a_token_without_signature() -> None:
    line = (
        f'{BEARER} required unsecuredLoginStringClaim_sub="ada" unsecuredLoginNumberClaim_n="2.5" '
        f'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60" '
        f'unsecuredLoginExtension_t="1";'
    )
    found = sasl("OAUTHBEARER", line)
    assert found.extensions == {"t": "1"}
    callback: Any = found.token_callback
    header, claims, signature = [
        part + "=" * (-len(part) % 4) for part in callback.token().split(".")
    ]
    assert json.loads(base64.urlsafe_b64decode(header)) == {"alg": "none"}
    told = json.loads(base64.urlsafe_b64decode(claims))
    assert (told["sub"], told["n"], told["scope"]) == ("ada", 2.5, ["a", "b"])
    assert told["exp"] - told["iat"] == 60
    assert told["iat"] <= time.time()
    assert signature == ""


def test_kerberos() -> None:
    line = (
        f'{KERBEROS} required useKeyTab=true storeKey=true keyTab="/k" principal="a@R" '
        f'serviceName="sk";'
    )
    kerberos = sasl("GSSAPI", line).kerberos
    assert kerberos is not None
    assert (kerberos.keytab, kerberos.principal, kerberos.service_name) == ("/k", "a@R", "sk")


@pytest.mark.parametrize(
    ("mechanism", "line", "why"),
    [
        ("PLAIN", "hunter2", "it has no flag"),
        ("PLAIN", f"{PLAIN} required username=ada password=hunter2", "does not end with ';'"),
        ("PLAIN", f"{PLAIN} required username=ada;", r"sasl_password is missing: PLAIN needs it"),
        ("PLAIN", f"{PLAIN} required username=ada pasword=hunter2;", "option 2 means nothing"),
        ("PLAIN", f"{PLAIN} required username=ada hunter2=x;", "option 2 means nothing"),
        ("PLAIN", f"{SCRAM} required username=ada password=hunter2;", "ScramLoginModule is for"),
        ("SCRAM-SHA-256", f"{PLAIN} required;", "is for PLAIN, and sasl.mechanism is SCRAM"),
        ("PLAIN", "org.hunter2.Module required;", "none of PlainLoginModule"),
        ("OAUTHBEARER", f"{BEARER} required;", "nowhere to get tokens from"),
        ("OAUTHBEARER", f'{BEARER} required unsecuredLoginStringClaim_x="1";', "Claim_sub is miss"),
        ("OAUTHBEARER", f"{BEARER} required unsecuredLoginX=1;", "there is no unsecuredLoginX"),
        ("OAUTHBEARER", f"{BEARER} required unsecuredLoginLifetimeSeconds=hunter2;", "a number"),
    ],
)
def test_a_line_that_means_nothing_here_is_refused(mechanism: str, line: str, why: str) -> None:
    assert why in refused(mechanism, line)


def test_a_line_and_a_setting_that_differ_are_refused_by_both_names() -> None:
    line = f"{PLAIN} required username=ada password=hunter2;"
    assert sasl("PLAIN", line, sasl_username="ada").username == "ada"
    text = refused("PLAIN", line, sasl_plain_username="bob")
    assert "sasl_plain_username and sasl.jaas.config (username) mean the same" in text


def test_a_line_that_is_no_text_is_refused() -> None:
    line: Any = 5
    assert "must be a str, not int" in refused("PLAIN", line)
