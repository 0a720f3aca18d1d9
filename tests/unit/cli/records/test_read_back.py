"""fastprod.cli.records.read_back: the choice of a reader; tests/interop/test_cli.py reads."""

from __future__ import annotations

import importlib.util

import click
import pytest

from fastprod.cli.records.read_back import installed_reader


def install_only(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: object() if name in modules else None
    )


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        (["confluent_kafka", "kafka"], "confluent-kafka"),
        (["confluent_kafka"], "confluent-kafka"),
        (["kafka"], "kafka-python"),
    ],
)
def test_the_fastest_installed_client_is_taken(
    monkeypatch: pytest.MonkeyPatch, modules: list[str], name: str
) -> None:
    install_only(monkeypatch, *modules)
    assert installed_reader().name == name


def test_without_any_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    install_only(monkeypatch)
    with pytest.raises(click.UsageError, match="install confluent-kafka or kafka-python"):
        installed_reader()
