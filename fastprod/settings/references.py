"""References: values that stand elsewhere: ``${env:NAME}``, ``${file:PATH}``, ``${file:PATH:key}``.

They have the form of Kafka's config providers (KIP-297, KIP-421, KIP-887), and are put in place
when a configuration is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from fastprod.errors import ConfigError
from fastprod.security.secret import Secret

PROVIDERS: Final = ("env", "file", "directory")
"""The providers there are, by the names that Kafka's documentation gives them."""

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_.-]*):([^}:]*)(?::([^}]*))?\}")
_QUOTED: Final = re.compile(r"[\\\"']")
_FILE_LIMIT_BYTES: Final = 1 << 20


def variables(value: str) -> list[str]:
    """The names of the variables of the environment that a setting's value refers to."""
    return [place for provider, place, _ in _REFERENCE.findall(value) if provider == "env"]


def resolved(key: str, value: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Return a setting's value with what it refers to in place of each reference.

    In Kafka's sasl.jaas.config what is put in place is quoted, so that a password may have quotes.

    Args:
        key: the setting, for errors; with dots or underscores, and what stands before its name.
        value: a str may have references anywhere in it; everything else stays as it is, a `Secret`
            too, for what was put in place is not looked into again.
        environment: variables of another process, which go before those of this one.

    Returns:
        A `Secret` if there was a reference.

    Raises:
        ConfigError: what a reference names is not there, or its provider is none of `PROVIDERS`;
            neither the value nor what it refers to is shown, only the name.

    Blocks: for the disk.  A password of the very form of a reference must be given by one.
    """
    if not isinstance(value, str) or isinstance(value, Secret) or "${" not in value:
        return value
    is_line = key.replace("_", ".").endswith("sasl.jaas.config")
    is_in_quotes = is_line and _REFERENCE.fullmatch(value.strip()) is None

    def put(found: re.Match[str]) -> str:
        text = _look_up(key, found, environment or {})
        if not is_in_quotes:
            return text
        text = _QUOTED.sub(r"\\\g<0>", text).replace("\n", "\\n").replace("\r", "\\r")
        return f'"{text}"' if value[: found.start()].rstrip().endswith("=") else text

    text, count = _REFERENCE.subn(put, value)
    return Secret(text) if count else value


def check_providers(key: str, value: Any) -> None:
    """Check Kafka's setting config.providers: only those that there are may be named.

    Raises:
        ConfigError: it names another one.
    """
    for name in str(value or "").split(","):
        if name.strip() not in ("", *PROVIDERS):
            raise ConfigError(
                f"{key} names the provider {name.strip()!r}; there are {', '.join(PROVIDERS)}",
                key=key,
            )


def _look_up(key: str, found: re.Match[str], environment: Mapping[str, str]) -> str:
    provider, place, name = found.groups()
    if provider not in PROVIDERS:
        raise ConfigError(
            f"{key} refers to the provider {provider!r}; there are {', '.join(PROVIDERS)}", key=key
        )
    if not place:
        _refuse(key, found, "names nothing")
    if provider == "env":
        import os  # noqa: PLC0415

        text = environment.get(place, os.environ.get(place))
        if name is not None or text is None:
            _refuse(key, found, "the environment has no such variable")
        return text
    if provider == "directory":
        if not name or "/" in name:
            _refuse(key, found, "must be ${directory:PATH:FILE}")
        return _file_text(key, found, f"{place}/{name}").strip()
    content = _file_text(key, found, place)
    if name is None:
        return content.strip()
    from fastprod.settings.properties_file import parse_properties  # noqa: PLC0415

    pairs: Mapping[str, str] = {}
    try:
        pairs = parse_properties(content)
    except ValueError as error:
        _refuse(key, found, f"the file is no properties file: {error}")
    if name not in pairs:
        _refuse(key, found, "the file has no such key")
    return pairs[name]


def _file_text(key: str, found: re.Match[str], path: str) -> str:
    from pathlib import Path  # noqa: PLC0415

    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_LIMIT_BYTES + 1)
    except OSError as error:
        _refuse(key, found, f"the file cannot be read: {error.strerror}")
    if len(data) > _FILE_LIMIT_BYTES:
        _refuse(key, found, f"the file has more than {_FILE_LIMIT_BYTES:,} bytes")
    text = data.decode("utf-8-sig", "replace")
    if "\N{REPLACEMENT CHARACTER}" in text:
        # Not by the decoder's own error, which holds the file's bytes.
        _refuse(key, found, "the file is not UTF-8 text")
    return text


def _refuse(key: str, found: re.Match[str], why: str) -> NoReturn:
    raise ConfigError(f"{key} refers to {found.group()}: {why}", key=key)
