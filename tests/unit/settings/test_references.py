"""fastprod.settings.references: values from the environment and from files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError
from fastprod.security.secret import Secret
from fastprod.settings.references import resolved


def refused(value: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved("sasl_password", value)
    assert caught.value.__context__ is None or "hunter2" not in repr(caught.value.__context__)
    return str(caught.value)


def test_values_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPROD_A", " hunter2 ${env:FASTPROD_B}")
    monkeypatch.setenv("FASTPROD_B", "5")
    found = resolved("sasl_password", "${env:FASTPROD_A}")
    assert type(found) is Secret
    assert found == " hunter2 ${env:FASTPROD_B}"
    assert resolved("sasl_password", found) is found
    assert resolved("x", "a${env:FASTPROD_B}b${env:FASTPROD_B}") == "a5b5"
    config = ProducerConfig(
        {"bootstrap.servers": "h${env:FASTPROD_B}:1", "retries": "${env:FASTPROD_B}"}
    )
    assert (config.bootstrap_servers[0].host, config.retries) == ("h5", 5)


def test_values_from_files(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("\ufeffhunter2\n")
    assert resolved("x", f"${{file:{path}}}") == "hunter2"
    assert resolved("x", f"${{directory:{tmp_path}:secret}}") == "hunter2"
    path.write_text("user=ada\npassword = hunter2 \\\n  x\n")
    assert resolved("x", f"${{file:{path}:password}}") == "hunter2 x"


@pytest.mark.parametrize(
    "value", ["$env:A", "${env}", "${}", "${:a}", "${1:a}", "${env:A", "plain", 5, None]
)
def test_what_is_no_reference_stays_as_it_is(value: Any) -> None:
    assert resolved("x", value) is value


def test_what_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert "no such variable" in refused("hunter2${env:FASTPROD_NONE}")
    assert "refers to ${env:FASTPROD_NONE}" in refused("hunter2${env:FASTPROD_NONE}")
    assert "cannot be read: No such file" in refused(f"${{file:{path}}}")
    path.write_text("hunter2=1")
    assert "has no such key" in refused(f"${{file:{path}:other}}")
    path.write_text("a=\\user hunter2")
    assert "is no properties file" in refused(f"${{file:{path}:a}}")
    path.write_bytes(b"hunter2\xff")
    assert "is not UTF-8 text" in refused(f"${{file:{path}}}")
    path.write_bytes(b"hunter2" * (1 << 20))
    assert "more than 1,048,576 bytes" in refused(f"${{file:{path}}}")
    assert "must be ${directory:PATH:FILE}" in refused(f"${{directory:{tmp_path}}}")
    assert "must be ${directory:PATH:FILE}" in refused(f"${{directory:{tmp_path}:../secret}}")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("${vault:kafka/hunter2}", "sasl_password refers to the provider 'vault'; there are env,"),
        ("${secretManager:hunter2:password}", "the provider 'secretManager'"),
        ("x${Env:A}", "the provider 'Env'; there are env, file, directory"),
        ("${env:}", "names nothing"),
        ("${file::key}", "names nothing"),
    ],
)
def test_a_provider_that_there_is_not_is_refused_by_name(value: str, words: str) -> None:
    """KIP-297: the broker would get the reference as a password."""
    text = refused(value)
    assert words in text
    assert "hunter2" not in text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@pytest.mark.parametrize(
    "form", ['"${env:FASTPROD_A}"', "'${env:FASTPROD_A}'", "${env:FASTPROD_A}"]
)
def test_any_password_can_be_put_into_a_jaas_line(form: str, password: str) -> None:
    password = "hunter2~" + password  # no word that a pickle has anyway
    line = "org.apache.kafka.common.security.plain.PlainLoginModule required username=ada"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTPROD_A", password)
        config = ProducerConfig(
            {"sasl.jaas.config": f"{line} password={form};"},
            bootstrap_servers="h:1",
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
        )
    assert config.sasl is not None
    assert config.sasl.password == password
    assert password.encode() not in pickle.dumps(config)


def test_a_whole_jaas_line_can_stand_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    monkeypatch.setenv("FASTPROD_A", f'{line} username="a" password="b";')
    config = ProducerConfig(
        {"sasl.jaas.config": "${env:FASTPROD_A}"},
        bootstrap_servers="h:1",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
    )
    assert config.sasl is not None
    assert (config.sasl.username, config.sasl.password) == ("a", "b")


def test_a_wrong_value_from_elsewhere_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPROD_A", "hunter2")
    with pytest.raises(ConfigError) as caught:
        ProducerConfig(bootstrap_servers="h:1", retries="${env:FASTPROD_A}")
    assert str(caught.value).startswith("retries = [hidden]: must be 0..")
    assert "hunter2" not in repr(vars(caught.value))
    assert caught.value.__context__ is None
