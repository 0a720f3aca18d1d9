"""fastprod.plugin_loading: making, configuring and looking at users' code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from fastprod.errors import ConfigError
from fastprod.plugin_loading import close_each, configure_plugin, make_plugin, plugin_name, takes


class Plain:
    """Has nothing to configure."""


class Configured:
    def configure(self, *configuration: Any) -> None:
        self.configuration = configuration


class Refusing:
    def configure(self, config: Any) -> None:
        raise ConfigError("registry_url is missing", key="registry_url")


class FailingToStart:
    def __init__(self) -> None:
        raise OSError("no such file")


class FailingToConfigure:
    def configure(self, config: Any) -> None:
        raise KeyError("registry")


class NeedingArguments:
    def __init__(self, url: str) -> None:
        self.url = url


def test_a_plugin_is_made_and_configured() -> None:
    made = make_plugin("k", Configured, {"client.id": "c"}, True)
    assert made.configuration == ({"client.id": "c"}, True)
    assert isinstance(make_plugin("k", Plain, {}), Plain)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (FailingToStart, r"k = FailingToStart: making one failed \(OSError: no such file\)"),
        (NeedingArguments, r"k = NeedingArguments: making one failed \(TypeError: .*url"),
        (FailingToConfigure, r"k = FailingToConfigure: its configure\(\) failed \(KeyError"),
    ],
)
def test_a_plugin_that_fails_is_a_config_error_with_the_cause(kind: type, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        make_plugin("k", kind, {})
    assert caught.value.key == "k"
    assert caught.value.__cause__ is not None


def test_a_config_error_of_the_plugin_goes_through_unchanged() -> None:
    with pytest.raises(ConfigError, match=r"^registry_url is missing$"):
        configure_plugin("k", Refusing(), {})


def test_names_are_those_of_functions_classes_and_objects_classes() -> None:
    assert plugin_name(Plain) == "Plain"
    assert plugin_name(Plain()) == "Plain"
    assert plugin_name(plugin_name) == "plugin_name"
    assert plugin_name(functools.partial(print)) == "partial"


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (lambda: 0, {0}),
        (lambda a, b=1: 0, {1, 2}),
        (lambda a, *rest: 0, {1, 2, 3}),
        (lambda *rest: 0, {0, 1, 2, 3}),
        (lambda a, *, b=1: 0, {1}),
        (functools.partial(lambda a, b, c: 0, 1), {2}),
        (Configured().configure, {0, 1, 2, 3}),
        (dict, {0, 1, 2, 3}),
    ],
)
def test_takes_tells_how_many_arguments_fit(function: Callable[..., Any], counts: set[int]) -> None:
    assert {count for count in range(4) if takes(function, count)} == counts


def test_each_is_closed_whatever_another_raises() -> None:
    """P-A.9.6; Ctrl-C, too, keeps none from it."""
    closed: list[str] = []

    def fail(error: BaseException) -> None:
        closed.append(type(error).__name__)
        raise error

    first = KeyboardInterrupt()
    closes = [lambda: fail(first), lambda: fail(ValueError()), lambda: closed.append("last")]
    assert close_each(closes) is first
    assert closed == ["KeyboardInterrupt", "ValueError", "last"]
    assert close_each([]) is None
