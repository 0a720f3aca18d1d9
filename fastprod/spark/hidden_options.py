"""HiddenOptions: hides options of a write that may be secret from what Spark shows.

Spark writes the options of a write, and the literals of its query, into plans; and plans into event
logs, its pages and what a stream fails with.  It leaves out the value of an option if that or the
name has "secret", "password", "token" or "url" in it (``spark.redaction.regex``,
``spark.sql.redaction.options.regex``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastprod.errors import ConfigError
from fastprod.security.secret import is_secret_name
from fastprod.settings.references import resolved, variables

HIDDEN: Final = "fastprod.secret.options"
"""The option's name."""
BYTES: Final = ("utf-8", "surrogateescape")
"""Encoding and error handler by which any bytes become text in it."""

_SECRETS: Final = (
    *("header.", "schema.registry.", "kafka.sasl.", "kafka.ssl.", "kafka.https.ca."),
    *("kafka.proxy.url", "kafka.socks5.proxy", "kafka.oauth.cb", "kafka.basic.auth."),
    "kafka.schema.registry.",
)
_NO_SECRET: Final = "header.column."

_SPARK_HIDES: Final = re.compile("(?i)secret|password|token|access[.]?key|url")
"""Names that Spark's two settings have by default."""
_SETTINGS: Final = ("kafka.", "schema.registry.")
# What is secret in it stands behind the word password or secret, so that Spark hides the whole.
_JAAS: Final = "jaas"
_PRIVATE_KEY: Final = "PRIVATE KEY-----"
_URL_WITH_PASSWORD: Final = re.compile(r"://[^/?#@\s]*:[^/?#\s]+@")

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HiddenOptions:
    """What the option holds; plain data.

    Attributes:
        headers: (name, value) that every record gets, in the names' own case; values are
            bytes as text, by `BYTES`.
        header_columns: (name, column) of headers that a column holds.
        options: other options, by their names.
        environment: variables that settings refer to, of the process that calls `write`: the one
            that reads the options has the environment that Java had when Spark started.
    """

    headers: Pairs = field(default=(), repr=False)
    header_columns: Pairs = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self) -> str:
        """The value of the option."""
        return json.dumps(self.__dict__)


def hidden_options(given: Mapping[str, str]) -> HiddenOptions:
    """Return what a write's options hide; names are in any case.

    Raises:
        ConfigError: the option does not have the form of `HiddenOptions.text`.
    """
    text = _lower(given).get(HIDDEN)
    if text is None:
        return HiddenOptions()
    try:
        found = json.loads(text)
        return HiddenOptions(
            headers=_pairs(found.get("headers", ())),
            header_columns=_pairs(found.get("header_columns", ())),
            options=dict(_pairs(found.get("options", {}).items())),
            environment=dict(_pairs(found.get("environment", {}).items())),
        )
    except (AttributeError, RecursionError, TypeError, ValueError):
        # Not chained: the text of the error may contain a part of the value.
        raise ConfigError(
            f'{HIDDEN} is not of the form {{"options": {{NAME: VALUE, ...}}}}', key=HIDDEN
        ) from None


def all_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a write, with the hidden ones put back; names are in lower case.

    With a hidden environment, what settings refer to is put in place.

    Raises:
        ConfigError: as `hidden_options`; or what a setting refers to is not there.
    """
    hidden = hidden_options(given)
    found = _lower(given) | _lower(hidden.options)
    if hidden.environment:
        for name in filter(_is_setting, found):
            found[name] = resolved(name, found[name], hidden.environment)
    return found


def hiding(given: Mapping[str, str]) -> dict[str, str]:
    """The options, with those that may be secret hidden, and the variables they refer to.

    Raises:
        ConfigError: as `hidden_options`.
    """
    secrets = {name: value for name, value in given.items() if _may_be_secret(name.lower())}
    before = hidden_options(given)
    environment = _environment_of({**before.options, **given})
    if not secrets and not environment:
        return dict(given)
    open_names = [name for name in given if name not in secrets and name.lower() != HIDDEN]
    merged = HiddenOptions(
        before.headers,
        before.header_columns,
        {**before.options, **secrets},
        {**before.environment, **environment},
    )
    return {name: given[name] for name in open_names} | {HIDDEN: merged.text()}


def refuse_shown(given: Mapping[str, str]) -> None:
    """Refuse secrets that Spark shows: no code of ours runs before it has written its plan.

    Args:
        given: a write's options as Spark has them.

    Raises:
        ConfigError: names an option and the ways to give it; its value is not shown.
    """
    for name, value in given.items():
        plain = name.lower()
        # A reference says where the secret is, and not what.
        if _SPARK_HIDES.search(plain) or not _is_setting(plain) or "${" in value:
            continue
        if (
            (is_secret_name(plain) and _JAAS not in plain)
            or _PRIVATE_KEY in value
            or _URL_WITH_PASSWORD.search(value)
        ):
            raise ConfigError(
                f"{plain} holds a secret, and Spark shows its value in plans, pages and event "
                f"logs, those of this attempt among them: give ${{env:NAME}} or ${{file:PATH}} in "
                f"its place, which is looked up on the driver, or put it into the option {HIDDEN} "
                f'as {{"options": {{"{plain}": VALUE}}}}, as fastprod.spark.write does by itself',
                key=plain,
            )


def _is_setting(name: str) -> bool:
    """Whether an option, by its name in lower case, may refer to what stands elsewhere."""
    return name.startswith(_SETTINGS)


def _environment_of(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process that settings refer to, as far as they are there."""
    values = [value for name, value in given.items() if _is_setting(name.lower())]
    names = [name for value in values for name in variables(value)]
    return {name: os.environ[name] for name in names if name in os.environ}


def _may_be_secret(name: str) -> bool:
    if name.startswith("kafka."):  # whose settings have dots or underscores
        return name.replace("_", ".").startswith(_SECRETS)
    return name.startswith(_SECRETS) and not name.startswith(_NO_SECRET)


def _lower(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in given.items()}


def _pairs(found: Any) -> Pairs:
    pairs = tuple((name, value) for name, value in found)
    if not all(isinstance(each, str) for pair in pairs for each in pair):
        raise TypeError("no texts")
    return pairs
