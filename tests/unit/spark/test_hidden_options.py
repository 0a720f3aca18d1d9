"""HiddenOptions: one option that Spark shows nothing of."""

from __future__ import annotations

import re

import pytest

from fastprod.errors import ConfigError
from fastprod.spark.hidden_options import (
    BYTES,
    HIDDEN,
    HiddenOptions,
    all_options,
    hidden_options,
    hiding,
    refuse_shown,
)
from fastprod.spark.sink.options import sink_options

SPARKS_PATTERN = "(?i)secret|password|token|access[.]?key"
"""The default of ``spark.redaction.regex``."""


def test_spark_leaves_its_value_out() -> None:
    assert re.search(SPARKS_PATTERN, HIDDEN)


def test_what_may_be_secret_is_hidden_and_means_the_same() -> None:
    given = {
        "topic": "t",
        "kafka.linger.ms": "7",
        "header.column.a": "A",
        "Header.X": "hush-1",
        "kafka.ssl.key.password": "hush-2",
        "schema.registry.url": "http://me:hush-3@a",
    }
    shown = hiding(given)
    assert list(shown) == ["topic", "kafka.linger.ms", "header.column.a", HIDDEN]
    assert "hush" not in str({name: shown[name] for name in shown if name != HIDDEN})
    assert all_options(shown).items() >= all_options(given).items()
    assert sink_options(shown) == sink_options(given)
    assert sink_options(given).headers == (("x", b"hush-1"),)
    assert hiding({"topic": "t"}) == {"topic": "t"}


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.jaas.config", "sasl_plain_password", "ssl.key.pem", "ssl_password", "proxy_url"),
        *("https.ca.pem", "socks5_proxy", "basic.auth.user.info", "oauth_cb"),
    ],
)
def test_every_spelling_of_a_secret_is_hidden(name: str) -> None:
    given = {f"kafka.{name}": "hush"}
    assert list(hiding(given)) == [HIDDEN]
    assert all_options(hiding(given)).items() >= given.items()


def test_variables_are_those_of_the_process_that_calls_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who reads the options has the environment that Java had when Spark started."""
    monkeypatch.setenv("LATE_LOGIN", "hush-1 ${env:HOME} ")
    monkeypatch.setenv("LATE_ID", "a")
    given = {
        "kafka.sasl_password": "${env:LATE_LOGIN}",
        "kafka.client.id": "${env:LATE_ID}-1",
        "schema.registry.basic.auth.user.info": "${env:LATE_LOGIN}",
        "kafka.ssl.key.password": "${env:MISSING}",
        "header.h": "${env:LATE_ID}",
    }
    shown = hiding(given)
    monkeypatch.setenv("LATE_LOGIN", "of Java")
    monkeypatch.delenv("LATE_ID")
    assert "hush" not in str({name: shown[name] for name in shown if name != HIDDEN})
    with pytest.raises(ConfigError, match="MISSING"):
        all_options(shown)
    monkeypatch.setenv("MISSING", "here")
    found = all_options(shown)
    assert found["kafka.sasl_password"] == "hush-1 ${env:HOME} "
    assert found["schema.registry.basic.auth.user.info"] == "hush-1 ${env:HOME} "
    assert found["header.h"] == "${env:LATE_ID}"
    settings = dict(sink_options(shown).settings)
    assert settings["client.id"] == "a-1"
    assert settings["sasl.password"] == "hush-1 ${env:HOME} "
    assert settings["ssl.key.password"] == "here"
    assert hiding({"kafka.client.id": "a"}) == {"kafka.client.id": "a"}


def test_headers_keep_the_case_of_their_names_and_any_bytes() -> None:
    hidden = HiddenOptions((("A", b"\xff".decode(*BYTES)), ("column.A", "\u00e9")), (("B", "b.0"),))
    given = {HIDDEN.upper(): hidden.text(), "header.c": "0"}
    for options in (sink_options(given), sink_options(hiding(given))):
        assert sorted(options.headers) == [("A", b"\xff"), ("c", b"0"), ("column.A", b"\xc3\xa9")]
        assert options.header_columns == (("B", "b.0"),)
    assert hidden_options(given) == hidden
    assert "\xe9" not in repr(hidden)


@pytest.mark.parametrize(
    "text",
    ["", "hush", '["hush"]', '{"headers": ["hush"]}', '{"options": {"header.a": 1, "hush": 2}}'],
)
def test_another_form_is_refused_without_what_it_has(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(HIDDEN)) as raised:
        sink_options({HIDDEN: text})
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None


KEY = "-----BEGIN PRIVATE KEY----- hush -----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.ssl.keystore.key", KEY),
        ("Kafka.SSL.Key.PEM", "hush"),
        ("kafka.ssl.keystore.certificate.chain", KEY),
        ("kafka.socks5.proxy", "socks5://ada:hush@p:1080"),
        ("kafka.sasl.oauthbearer.config", "hush"),
        ("kafka.basic.auth.user.info", "ada:hush"),
        ("schema.registry.basic.auth.user.info", "ada:hush"),
    ],
)
def test_a_secret_that_spark_would_show_is_refused_with_the_ways_to_give_it(
    name: str, value: str
) -> None:
    """P-B.8"""
    assert not re.search(SPARKS_PATTERN, name)
    with pytest.raises(ConfigError, match=re.escape(name.lower())) as raised:
        refuse_shown({"topic": "t", name: value})
    assert "hush" not in str(raised.value)
    assert "fastprod.spark.write" in str(raised.value)
    refuse_shown({name: "${file:/etc/hush}"})
    refuse_shown({HIDDEN: HiddenOptions(options={name: value}).text()})
    refuse_shown(hiding({name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.sasl.password", "hush"),
        ("kafka.proxy.url", "http://ada:hush@p:1"),
        ("kafka.sasl.jaas.config", "M required username=ada password=hush;"),
        ("kafka.sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;"),
        ("kafka.ssl.truststore.certificates", "-----BEGIN CERTIFICATE-----"),
        ("kafka.ssl.key.password", "hush"),
        ("schema.registry.url", "http://ada:hush@r:1"),
        ("kafka.bootstrap.servers", "a:1,b:2"),
        ("header.user.info", "anything"),
        ("header.link", "http://ada:x@r:1"),
    ],
)
def test_what_spark_hides_by_itself_or_is_no_secret_is_taken(name: str, value: str) -> None:
    refuse_shown({name: value})
    if "hush" in value:
        hidden = f"{SPARKS_PATTERN}|url"
        assert re.search(hidden, name) or re.search(hidden, value)


def test_an_unknown_option_is_refused_though_it_is_hidden() -> None:
    with pytest.raises(ConfigError, match="topik is not an option"):
        sink_options({HIDDEN: HiddenOptions(options={"topik": "t"}).text()})
