"""fastprod.settings: names of other clients, and names that mean nothing."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from fastprod.config import SETTINGS, ProducerConfig
from fastprod.errors import ConfigError
from fastprod.settings.given_settings import JAAS
from fastprod.settings.setting_names import IGNORED, IN_PLACE, REFUSED, RENAMED, WORDS

VALUES: dict[str, Any] = {
    "bootstrap_servers": "h:1",
    "sasl_mechanism": "plain",
    "sasl_oauth_token_provider": len,
    "sasl_extensions": "a=b=c,d=e",
    "ssl_endpoint_identification_algorithm": False,
    "ssl_cipher_suites": "HIGH",
    "ssl_context": None,
    "proxy_url": "socks5://h:1",
}
"""Something to give for an alias of each; a str by default."""


def config(**settings: Any) -> ProducerConfig:
    if "metadata_broker_list" not in settings:
        settings["bootstrap_servers"] = "h:1"
    return ProducerConfig(security_protocol="PLAINTEXT", **settings)


def refused(settings: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({"bootstrap.servers": "h:1", **settings})
    return str(caught.value)


@pytest.mark.parametrize("alias", [name for name in RENAMED if VALUES.get(RENAMED[name], 1)])
def test_every_alias_means_what_our_setting_does(alias: str) -> None:
    ours = RENAMED[alias]
    value = VALUES.get(ours, "text")
    meant = "none" if ours == "ssl_endpoint_identification_algorithm" else value
    found = config(**{alias: value})
    assert getattr(found, ours) == getattr(config(**{ours: meant}), ours)
    assert ours in found.explicit
    assert alias not in found.explicit


@pytest.mark.parametrize("alias", [name for name in RENAMED if name != "ssl_check_hostname"])
def test_an_alias_and_our_name_with_different_values_are_refused_by_both_names(alias: str) -> None:
    ours = RENAMED[alias]
    if ours in ("bootstrap_servers", "sasl_mechanism", "sasl_oauth_token_provider", "ssl_context"):
        one, other = {
            "bootstrap_servers": ("h:1", "h:2"),
            "sasl_mechanism": ("PLAIN", "OAUTHBEARER"),
            "sasl_oauth_token_provider": (len, repr),
            "ssl_context": (_lax_context, _strict_context),
        }[ours]
    else:
        one, other = "a=hunter2-1", "a=hunter2-2"
    settings = {ours.replace("_", "."): one, alias: other}
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({"bootstrap.servers": "h:1", **settings})
    assert ours.replace("_", ".") in str(caught.value)
    assert alias in str(caught.value)
    assert "mean the same setting and have different values" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def _lax_context() -> Any:
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _strict_context() -> Any:
    import ssl  # noqa: PLC0415

    context = _lax_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def test_an_alias_with_the_same_value_is_no_error() -> None:
    found = config(ssl_cafile="/ca.pem", ssl_truststore_location="/ca.pem")
    assert found.ssl_truststore_location == "/ca.pem"


@pytest.mark.parametrize("name", [*RENAMED, JAAS, "ssl_context", "sasl_mechanism", "proxy_url"])
def test_none_is_kafka_pythons_way_to_leave_a_setting_out(name: str) -> None:
    found = ProducerConfig(bootstrap_servers="h:1", **{name: None})
    assert found.explicit == {"bootstrap_servers"}


def test_no_name_is_in_two_tables_and_aliases_lead_to_settings() -> None:
    tables = (SETTINGS, RENAMED, IGNORED, REFUSED, WORDS, (JAAS,))
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    assert set(RENAMED.values()) <= set(SETTINGS)


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_mean_nothing_are_refused_with_the_reason(name: str) -> None:
    """P-B.9."""
    text = refused({name.replace("_", "."): "hunter2"})
    assert text == f"{name.replace('_', '.')} is refused: {REFUSED[name]}"
    assert ProducerConfig({name: None}, bootstrap_servers="h:1").acks == -1


@pytest.mark.parametrize("name", [*IGNORED, "schema_registry_url"])
def test_settings_that_are_ignored_are_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fastprod.config")
    found = ProducerConfig({"bootstrap.servers": "h:1", name: "hunter2"})
    assert found.explicit == {"bootstrap_servers"}
    assert f"{name} is ignored: it " in caplog.text
    assert "hunter2" not in caplog.text


def test_words_of_librdkafka_that_mean_nothing_special() -> None:
    for name, words in WORDS.items():
        for word in (*words, *map(str.upper, words)):
            assert ProducerConfig({name: word}, bootstrap_servers="h:1").acks == -1
    text = refused({"sasl.oauthbearer.metadata.authentication.type": "azure_imds"})
    assert text.endswith("is refused: must be none")


@pytest.mark.parametrize("name", ["queue.buffering.max.ms", "ssl.ca.locations", "sasl.usernam"])
def test_other_names_of_librdkafka_are_refused_with_the_nearest(name: str) -> None:
    assert f"{name} is not a setting" in refused({name: "hunter2"})


@pytest.mark.parametrize("name", IN_PLACE)
def test_names_of_other_clients_lead_to_what_is_given_in_their_place(name: str) -> None:
    """The nearest name of `message.timeout.ms` is `request.timeout.ms`, which is something else."""
    assert name not in SETTINGS
    assert set(re.findall(r"\w+_\w+|acks|retries", IN_PLACE[name])) <= set(SETTINGS)
    dotted = IN_PLACE[name].replace("_", ".")
    assert refused({name.replace("_", "."): "1"}).endswith(
        f"not a setting; did you mean {dotted if '_' in name else IN_PLACE[name]}?"
    )
    assert refused({name: "1"}).endswith(f"not a setting; did you mean {IN_PLACE[name]}?")


def test_names_near_an_alias_lead_to_it() -> None:
    assert refused({"ssl.ca.locatio": "x"}).endswith("did you mean ssl.ca.location?")
    assert refused({"sasl_plain_user": "x"}).endswith("did you mean sasl_plain_username?")


def test_kafkas_config_providers_are_named_or_refused() -> None:
    java = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    found = ProducerConfig(
        {
            "bootstrap.servers": "h:1",
            "config.providers": "env, file",
            "config.providers.env.class": java,
        }
    )
    assert found.explicit == {"bootstrap_servers"}
    assert "there are env, file, directory" in refused({"config.providers": "env,vault"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.login.callback.handler.class", "com.example.Handler"),
        ("sasl.client.callback.handler.class", "com.example.Handler"),
        ("sasl.oauthbearer.jwt.retriever.class", "org.example.Retriever"),
        ("ssl.engine.factory.class", "org.example.Factory"),
    ],
)
def test_java_classes_are_refused(name: str, value: str) -> None:
    assert f"{name} is refused: " in refused({name: value, "security.protocol": "PLAINTEXT"})


def test_a_login_callback_handler_may_be_a_python_function() -> None:
    found = config(sasl_login_callback_handler_class="builtins:len")
    assert found.sasl_oauth_token_provider is len
    java = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
    other = config(sasl_oauthbearer_jwt_retriever_class=java)
    assert other.sasl_oauthbearer_grant_type.endswith("jwt-bearer")


def test_probing_for_certificates_is_what_the_system_has() -> None:
    assert config(ssl_ca_location="probe").ssl_truststore_location is None
    assert config(https_ca_location="probe").https_ca_location is None
