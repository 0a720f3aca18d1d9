"""What a caller gave, under our names: other clients' names, references and JAAS lines replaced."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from fastprod.config_values import Setting
from fastprod.errors import ConfigError
from fastprod.log import Log

# What only some callers need is imported where they do: `import fastprod` reads none of it.

_log = Log("fastprod.config")

JAAS: Final = "sasl_jaas_config"
"""Kafka's setting that holds several of ours."""

# librdkafka's word for the system's own certificates.
_SYSTEMS: Final = "probe"

# Ours that may be given as None, which is kafka-python's default for them.
_NONE_MEANS_NOTHING: Final = (
    "ssl_",
    "sasl_",
    "https_ca_",
    "enable_s",
    "proxy_",
    "transactional_id",
)


Given = tuple[str, Any]
"""One setting that was given: how the caller spelled it, and its value, parsed."""


def gather(
    settings: Mapping[str, Any] | None, more: Mapping[str, Any], known: Mapping[str, Setting]
) -> dict[str, Given]:
    """Return what was given by the names of `known`, parsed.

    Raises:
        ConfigError: a setting is unknown, refused, wrong, or given twice with different values.

    Blocks: for the disk, if a value refers to a file.
    """
    if not isinstance(settings, Mapping | None):
        raise ConfigError(
            f"the settings must be a mapping, not {type(settings).__name__}; brokers are given as "
            f"bootstrap_servers='host:port'"
        )
    found: dict[str, Given] = {}
    jaas: list[tuple[str, Any]] = []
    for key, value in itertools.chain((settings or {}).items(), more.items()):
        if not isinstance(key, str):
            raise ConfigError(f"a setting's name must be a str, not {type(key).__name__}")
        name = key.replace(".", "_")
        if name == "https_ca_location" and value == _SYSTEMS:
            continue
        if name in known:
            if name in found and found[name][0].replace(".", "_") == name:
                raise ConfigError(f"{key} is given twice (also as {found[name][0]})", key=key)
            if value is not None or not name.startswith(_NONE_MEANS_NOTHING):
                _put(found, known, name, key, value)
        elif name == JAAS:
            if value is not None:
                jaas.append((key, value))
        else:
            for each, meant in _in_our_words(key, name, value, known):
                _put(found, known, each, key, meant)
    for key, value in jaas:
        from fastprod.security.jaas_settings import jaas_settings  # noqa: PLC0415

        given = found.get("sasl_mechanism")
        mechanism = known["sasl_mechanism"].default if given is None else given[1]
        for each, label, meant in jaas_settings(key, value, mechanism):
            _put(found, known, each, label, meant)
    return found


def _put(
    found: dict[str, Given], known: Mapping[str, Setting], name: str, key: str, value: Any
) -> None:
    parsed = known[name].parse(key, _resolved(key, value))
    before = found.get(name)
    if before is None:
        found[name] = (key, parsed)
    elif before[1] != parsed:
        raise ConfigError(
            f"{before[0]} and {key} mean the same setting and have different values; leave one out",
            key=key,
        )


def _resolved(key: str, value: Any) -> Any:
    if not isinstance(value, str) or "${" not in value:
        return value
    from fastprod.settings.references import resolved  # noqa: PLC0415

    return resolved(key, value)


def _in_our_words(
    key: str, name: str, value: Any, known: Mapping[str, Setting]
) -> Iterable[tuple[str, Any]]:
    """Return the settings, by name, that one which is not ours stands for."""
    from fastprod.settings.setting_names import RENAMED  # noqa: PLC0415

    ours = RENAMED.get(name)
    if ours is None:
        _refuse_or_ignore(key, name, value, known)
        return []
    if value is None:
        return []
    if name == "ssl_ca_location" and value == _SYSTEMS:
        return []
    if name == "ssl_check_hostname":
        checks = Setting("boolean", "").parse(key, _resolved(key, value))
        return [(ours, "https" if checks else "none")]
    if name.endswith("_class") and isinstance(value, str):
        from fastprod.security.java_classes import meaning  # noqa: PLC0415

        return meaning(key, ours, value)
    return [(ours, value)]


def _refuse_or_ignore(key: str, name: str, value: Any, known: Mapping[str, Setting]) -> None:
    # The value stays out of the messages: what is not understood may be a misspelt password.
    from fastprod.settings.references import check_providers  # noqa: PLC0415
    from fastprod.settings.setting_names import REFUSED, WORDS, ignored  # noqa: PLC0415

    if name == "config_providers":
        check_providers(key, value)
        return
    if name.startswith("config_providers_"):
        return
    if name == "sasl_client_callback_handler_class" and isinstance(value, str):
        from fastprod.security.java_classes import check_client_handler  # noqa: PLC0415

        check_client_handler(key, value)
        return
    reason = ignored(name)
    if reason is not None:
        _log.info("%s is ignored: %s", key, reason)
        return
    words = WORDS.get(name)
    if words is not None and str(value).strip().lower() in words:
        return
    reason = f"must be {' or '.join(words)}" if words is not None else REFUSED.get(name)
    if reason is not None:
        if value is None or (name == "transaction_two_phase_commit_enable" and value is False):
            return
        raise ConfigError(f"{key} is refused: {reason}", key=key)
    _refuse_unknown(key, name, known)


def _refuse_unknown(key: str, name: str, known: Mapping[str, Setting]) -> NoReturn:
    import difflib  # noqa: PLC0415

    from fastprod.settings.setting_names import IN_PLACE, RENAMED  # noqa: PLC0415

    nearest = difflib.get_close_matches(name, [*known, *RENAMED, JAAS], n=1)
    if name in IN_PLACE or nearest:
        hint = IN_PLACE.get(name) or nearest[0]
        hint = hint.replace("_", ".") if "." in key else hint
        raise ConfigError(f"{key} is not a setting; did you mean {hint}?", key=key, nearest=hint)
    raise ConfigError(
        f"{key} is not a setting, nor near one; fastprod.config.describe() lists all", key=key
    )
