"""No secret is shown by anything that a configuration is, makes or raises."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from fastprod import KafkaProducer
from fastprod.config import SETTINGS, ProducerConfig, describe
from fastprod.errors import ConfigError
from fastprod.security.secret import is_secret_name
from fastprod.settings.given_settings import JAAS
from fastprod.settings.setting_names import RENAMED

SECRETS = [name for name, each in SETTINGS.items() if each.kind == "secret"]
NAMES = [*SECRETS, JAAS, *[name for name, ours in RENAMED.items() if ours in SECRETS]]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20).map("hunter2~{}".format)


def shown_by(error: BaseException) -> str:
    """What a report of an error may show: with the local variables of all frames but the tests'."""
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in found.stack if frame.filename != __file__]
    assert frames
    return f"{error!r} {error} {vars(error)} {[frame.locals for frame in frames]}"


@drawn(st.sampled_from(NAMES), st.sampled_from(["SASL_SSL", "PLAINTEXT", None]), TEXTS)
@settings(max_examples=300)
def test_a_secret_is_shown_nowhere(name: str, protocol: str | None, text: str) -> None:
    """P-B.8: neither if the configuration is made nor if it is refused."""
    given: dict[str, Any] = {"bootstrap.servers": "h:1", name: text, "sasl.mechanism": "PLAIN"}
    if protocol is not None:
        given["security.protocol"] = protocol
    try:
        config = ProducerConfig(given)
    except ConfigError as error:
        told = shown_by(error)
        data = pickle.dumps(error)
    else:
        told = f"{config!r} {config} {config.values()} {vars(config)} {config.sasl} {config.tls}"
        data = pickle.dumps(config)
        assert pickle.loads(data) == config
    assert "hunter2~" not in told
    assert b"hunter2~" not in data


@pytest.mark.parametrize("name", NAMES)
def test_every_secret_setting_is_known_as_one_by_its_name(name: str) -> None:
    if "certificate" not in name and name not in ("ssl_ca_pem", "https_ca_pem", "socks5_proxy"):
        assert is_secret_name(name)


def test_a_secret_of_another_type_is_refused_without_its_value() -> None:
    with pytest.raises(ConfigError, match="sasl_password must be a str, not list") as caught:
        ProducerConfig(bootstrap_servers="h:1", sasl_password=["hunter2"])
    assert "hunter2" not in shown_by(caught.value)


def test_bytes_are_text() -> None:
    config = ProducerConfig(
        bootstrap_servers="h:1",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="ada",
        sasl_password=b"hunter2",
    )
    assert config.sasl_password == "hunter2"


def test_the_documentation_of_a_secret_shows_no_default() -> None:
    rows = {row.name: row for row in describe()}
    assert {rows[name].range for name in SECRETS} == {"a str, never shown"}
    assert {rows[name].default for name in SECRETS} == {""}


def test_nor_does_a_producer_that_cannot_be_made_show_one() -> None:
    settings = {"bootstrap.servers": "h:1", "sasl.password": "hunter2"}
    with pytest.raises(ConfigError) as caught:
        KafkaProducer(settings, sasl_username="hunter2")
    assert "hunter2" not in shown_by(caught.value)
