"""The options of value and key formats, by the names that Spark hands over: in lower case."""

from __future__ import annotations

from typing import Final

FORMATS: Final = ("json", "avro", "protobuf", "raw")
JSON_OPTIONS: Final = (
    "json.ignorenullfields",
    "json.dateformat",
    "json.timestampformat",
    "json.timestampntzformat",
    "json.timezone",
)
REGISTRY: Final = "schema.registry."
FORMAT_OPTIONS: Final = (
    "value.format",
    "value.columns",
    "key.format",
    "key.columns",
    *JSON_OPTIONS,
    "avro.schema",
    "protobuf.descriptor",
    "protobuf.message",
    "schema.registry.url",
)


def is_format_option(name: str) -> bool:
    """Whether an option in lower case belongs to the formats."""
    return name in FORMAT_OPTIONS or name.startswith(REGISTRY)
