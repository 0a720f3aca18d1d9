"""Plug-ins: from what a setting names to an object that is configured and ready."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fastprod.errors import ConfigError

if TYPE_CHECKING:
    import inspect


def make_plugin(key: str, kind: type, *configuration: Any) -> Any:
    """Make an object of a class that a setting names, and configure it if it can be.

    Args:
        key: the setting, for the error.
        kind: the class; called without arguments.
        configuration: what its `configure`, if it has one, is called with.

    Raises:
        ConfigError: the class or its `configure` raised; a `ConfigError` of its own goes through.
    """
    try:
        made = kind()
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{key} = {plugin_name(kind)}: making one failed ({type(error).__name__}: {error}); "
            f"pass an object made by you instead",
            key=key,
        ) from error
    configure_plugin(key, made, *configuration)
    return made


def configure_plugin(key: str, plugin: Any, *configuration: Any) -> None:
    """Call the `configure` of `plugin` if it has one.

    Raises:
        ConfigError: it raised; a `ConfigError` of its own goes through.
    """
    configure = getattr(plugin, "configure", None)
    if not callable(configure):
        return
    try:
        configure(*configuration)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{key} = {plugin_name(plugin)}: its configure() failed "
            f"({type(error).__name__}: {error})",
            key=key,
        ) from error


def plugin_name(plugin: Any) -> str:
    """Return what a function, a class or an object's class is called, for messages."""
    return getattr(plugin, "__qualname__", None) or type(plugin).__qualname__


def positional_parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters that `function` takes by position; None if Python cannot tell.

    A ``*args`` among them is the last one.
    """
    import inspect  # noqa: PLC0415

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return [each for each in parameters if each.kind in kinds]


def takes(function: Callable[..., Any], argument_count: int) -> bool:
    """Whether `function` can be called with `argument_count` arguments by position."""
    parameters = positional_parameters(function)
    if parameters is None:
        return True
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    named = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
    needed_count = sum(each.default is each.empty for each in named)
    return needed_count <= argument_count and (takes_any or argument_count <= len(named))


def close_each(closes: Iterable[Callable[[], object]]) -> BaseException | None:
    """Call all of them; return the first error, Ctrl-C among them."""
    first_error: BaseException | None = None
    for close in closes:
        try:
            close()
        except BaseException as error:
            first_error = first_error or error
    return first_error
