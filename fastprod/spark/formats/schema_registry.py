"""Confluent's Schema Registry: the id of a schema, in front of every message.

The wire format is a zero byte and the id as four bytes, big-endian.  Workers need no registry.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from fastprod.security.secret import Secret, plain_text
from fastprod.settings.references import resolved
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.formats.format_options import REGISTRY
from fastprod.spark.formats.library import load

URL: Final = "schema.registry.url"
_PROXY: Final = "schema.registry.proxy"
_PACKAGE: Final = "confluent-kafka[schemaregistry]"
_TIMEOUT: Final = "timeout"
_TIMEOUT_S: Final = 10.0  # of each try; its client would wait for ever
_NUMBERS: Final = (
    _TIMEOUT,
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
)
"""Settings that its client takes as numbers alone."""
_BUSY: Final = (408, 429)  # with 500 and above: of HTTP, what may pass by itself
_SCHEMES: Final = ("http://", "https://", "mock://")
_END_OF_HOST: Final = re.compile(r"[/?#]")


class RegistryAway(FormatError):
    """The registry does not answer, or says that it cannot just now."""


def registered_prefix(
    options: Mapping[str, str], topic: str | None, part: str, schema: str, kind: str
) -> bytes:
    """Register a schema under the topic's name, and return what goes before each message.

    Args:
        options: names in lower case; those that begin with schema.registry. are settings of
            confluent_kafka's SchemaRegistryClient; what they refer to, such as ``${env:NAME}``, is
            put in place here, on the driver.  schema.registry.timeout is in seconds, 10 by default.
        topic: of all rows.
        part: "value" or "key"; the subject is <topic>-value or <topic>-key.
        schema: its text.
        kind: AVRO or PROTOBUF.

    Returns:
        The bytes; b"" without schema.registry.url.

    Raises:
        ConfigError: what a setting refers to is not there.
        FormatError: there is no topic, a setting is wrong, the client is missing, or the registry
            refuses; `RegistryAway`: it does not answer.

    Blocks: for the registry, 10 s for each of four tries and some seconds between them, unless its
    settings say otherwise.
    """
    if not options.get(URL, "").strip():
        return b""
    if topic is None:
        raise FormatError(
            f"{URL} needs the option topic: schemas are registered under its name, and rows that "
            f"name their own topics have none in common"
        )
    settings = {
        name.removeprefix(REGISTRY): _setting(name, plain_text(_looked_up(name, value)))
        for name, value in options.items()
        if name.startswith(REGISTRY)
    }
    _check_addresses(settings)
    settings.setdefault(_TIMEOUT, _TIMEOUT_S)
    number = _registered(tuple(sorted(settings.items())), f"{topic}-{part}", schema, kind)
    return struct.pack(">bI", 0, number)


def _looked_up(name: str, value: str) -> Any:
    """The value with what it refers to; what was put in place before stays as it is."""
    return value if isinstance(value, Secret) else resolved(name, value.strip())


def _setting(name: str, text: str) -> str | float:
    """A setting as its client takes it.

    Raises:
        FormatError: it has to be a number, and is none.
    """
    if name.removeprefix(REGISTRY) not in _NUMBERS:
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    is_timeout = name == REGISTRY + _TIMEOUT
    if not math.isfinite(number) or number < 0 or (is_timeout and not number):
        wanted = "seconds, more than 0" if is_timeout else "a number, 0 or more"
        raise FormatError(f"{name} = {text!r}: must be {wanted}")
    return number


def _check_addresses(settings: Mapping[str, str | float]) -> None:
    """Refuse addresses in which nobody can tell a password from the host: errors would show it.

    Raises:
        FormatError: the setting, without its value.
    """
    urls = str(settings["url"]).split(",")
    advice = (
        f"in a password / has to be written as %2F, ? as %3F, # as %23 and a comma as %2C; or give "
        f"{REGISTRY}basic.auth.user.info"
    )
    if not all(each.strip().startswith(_SCHEMES) for each in urls):
        raise FormatError(f"{URL}: each address begins with http:// or https://; {advice}")
    for name, text in (*((URL, each) for each in urls), (_PROXY, str(settings.get("proxy", "")))):
        host = _END_OF_HOST.split(text.partition("://")[2])[0]
        if "@" in text and "@" not in host:
            raise FormatError(f"{name}: what is before @ is no name and password; {advice}")


@lru_cache(maxsize=16)
def _registered(
    given: tuple[tuple[str, str | float], ...], subject: str, schema: str, kind: str
) -> int:
    """The schema's id; cached, as a stream asks for it twice in each micro-batch."""
    library = load("confluent_kafka.schema_registry", _PACKAGE, URL)
    settings = dict(given)
    try:
        with library.SchemaRegistryClient(settings) as client:
            return int(client.register_schema(subject, library.Schema(schema, kind)))
    except Exception as error:
        # The exceptions of its HTTP library are not part of its interface.
        raise (RegistryAway if _is_away(error) else FormatError)(
            _without_secrets(
                f"the schema registry at {settings['url']} did not register the schema of "
                f"{subject}: {type(error).__name__}: {error}",
                settings,
            )
            + _hint(error, settings)
        ) from None


def _is_away(error: Exception) -> bool:
    """Whether the same may succeed later: there was no answer, or one that says so."""
    status = getattr(error, "http_status_code", 0)
    names = {each.__name__ for each in type(error).__mro__}
    return status >= 500 or status in _BUSY or "TransportError" in names


def _hint(error: Exception, settings: Mapping[str, str | float]) -> str:
    """What to change if the registry took too long."""
    if not type(error).__name__.endswith("Timeout"):
        return ""
    return (
        f"; each try has {settings[_TIMEOUT]:g} s: see whether it runs there, or raise "
        f"{REGISTRY}{_TIMEOUT}"
    )


def _without_secrets(text: str, settings: Mapping[str, str | float]) -> str:
    """The message without passwords, those in the URL among them."""
    texts = {name: value for name, value in settings.items() if isinstance(value, str)}
    secrets = [value for name, value in texts.items() if name != "url"]
    for url in (*texts["url"].split(","), texts.get("proxy", "")):
        login, at, _ = url.partition("://")[2].rpartition("@")
        secrets += [login] if at else []
    # One may be the beginning of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
