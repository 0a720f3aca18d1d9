"""Confluent's Schema Registry: the id of a schema, in front of every message.

The wire format is a zero byte and the id as four bytes, big-endian.  Workers need no registry.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from fastprod.security.secret import plain_text
from fastprod.settings.references import resolved
from fastprod.spark.formats.column_types import FormatError
from fastprod.spark.formats.format_options import REGISTRY
from fastprod.spark.formats.library import load

URL: Final = "schema.registry.url"
_PACKAGE: Final = "confluent-kafka[schemaregistry]"


def registered_prefix(
    options: Mapping[str, str], topic: str | None, part: str, schema: str, kind: str
) -> bytes:
    """Register a schema under the topic's name, and return what goes before each message.

    Args:
        options: names in lower case; those that begin with schema.registry. are settings of
            confluent_kafka's SchemaRegistryClient; what they refer to, such as ``${env:NAME}``, is
            put in place here, on the driver.
        topic: of all rows.
        part: "value" or "key"; the subject is <topic>-value or <topic>-key.
        schema: its text.
        kind: AVRO or PROTOBUF.

    Returns:
        The bytes; b"" without schema.registry.url.

    Raises:
        ConfigError: what a setting refers to is not there.
        FormatError: there is no topic, the client is missing, or the registry refuses.

    Blocks: for the registry, by its client's own time-outs.
    """
    if not options.get(URL, "").strip():
        return b""
    if topic is None:
        raise FormatError(
            f"{URL} needs the option topic: schemas are registered under its name, and rows that "
            f"name their own topics have none in common"
        )
    settings = {
        name.removeprefix(REGISTRY): plain_text(resolved(name, value.strip()))
        for name, value in options.items()
        if name.startswith(REGISTRY)
    }
    number = _registered(tuple(sorted(settings.items())), f"{topic}-{part}", schema, kind)
    return struct.pack(">bI", 0, number)


@lru_cache(maxsize=16)
def _registered(given: tuple[tuple[str, str], ...], subject: str, schema: str, kind: str) -> int:
    """The schema's id; cached, as a stream asks for it twice in each micro-batch."""
    library = load("confluent_kafka.schema_registry", _PACKAGE, URL)
    settings = dict(given)
    try:
        with library.SchemaRegistryClient(settings) as client:
            return int(client.register_schema(subject, library.Schema(schema, kind)))
    except Exception as error:
        # The exceptions of its HTTP library are not part of its interface.
        raise FormatError(
            _without_secrets(
                f"the schema registry at {settings['url']} did not register the schema of "
                f"{subject}: {type(error).__name__}: {error}",
                settings,
            )
        ) from None


def _without_secrets(text: str, settings: Mapping[str, str]) -> str:
    """The message without passwords, those in the URL among them."""
    secrets = [value for name, value in settings.items() if name != "url"]
    for url in settings["url"].split(","):
        login, at, _ = url.partition("://")[2].rpartition("@")
        secrets += [login] if at else []
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
