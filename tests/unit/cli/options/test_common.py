"""fastprod.cli.options.common: where the log goes."""

from __future__ import annotations

import logging
from typing import Any

import click
import pytest

from fastprod.cli.options.common import quiet_option, spark_verbose_option, verbose_option


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What logging is set up with."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **given: calls.append(given))
    return calls


def test_warnings_do_not_come_between_a_command_s_lines(configured: list[dict[str, Any]]) -> None:
    command = verbose_option(quiet_option(click.Command("c", callback=lambda quiet: quiet)))
    assert command(["-q"], standalone_mode=False) is True
    assert command(["-v"], standalone_mode=False) is False
    quiet, verbose = configured
    assert isinstance(quiet["handlers"][0], logging.NullHandler)
    assert isinstance(verbose["handlers"][0], logging.StreamHandler)
    assert (quiet["level"], verbose["level"]) == (logging.WARNING, logging.INFO)


def test_a_command_of_spark_s_is_told_whether_the_log_is_wanted(
    configured: list[dict[str, Any]],
) -> None:
    command = spark_verbose_option(click.Command("c", callback=lambda verbose: verbose))
    assert command(["-v"], standalone_mode=False) is True
    assert command([], standalone_mode=False) is False
    assert len(configured) == 2
