"""Setting: its kind, range and default, and how a caller's value is converted.

Source: contract P-B; ConfigDef of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import codecs
import importlib
import operator
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from fastprod.errors import ConfigError, InvalidTopicError
from fastprod.security.secret import HIDDEN, Secret, is_unicode, plain_text
from fastprod.topic_name import check_topic_name

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# A Kafka string is prefixed by its length as an int16.
_STRING_LIMIT_BYTES = 32_767
# Without patterns, which would be compiled by every import of the package.
_INTEGER_DIGITS = 20
_PORT_DIGITS = 5
_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


class BootstrapAddress(NamedTuple):
    """One entry of bootstrap_servers; an IPv6 host stands without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Setting(NamedTuple):
    """What one setting may be.

    Attributes:
        kind: "integer", "boolean", "string", "choice", "any case" (a choice in any case), "acks",
            "linger", "telemetry", "encoding", "addresses", "object", "objects", "path" (of a file),
            "secret", "decimal", "integer or none", "list", "topics", "pairs" or "ssl context".
        doc: one sentence, with the unit and the contract's clause where there is one.
        default: the value without one from the caller, as the config's attribute has it.
        low: smallest number allowed.
        high: largest number allowed.
        also: integers outside of `low`..`high` that are allowed too.
        choices: the words allowed.
    """

    kind: str
    doc: str
    default: Any = None
    low: float = 0
    high: float = INT64_MAX
    also: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def range_text(self) -> str:
        """The allowed values in words."""
        if self.kind == "decimal":
            return f"{self.low}..{self.high}"
        if self.kind not in ("integer", "integer or none"):
            choices = ", ".join(each or '""' for each in self.choices)
            return _RANGE_TEXTS.get(self.kind, "").replace("%s", choices)
        span = f">= {self.low}" if self.high == INT64_MAX else f"{self.low:,}..{self.high:,}"
        return " or ".join([str(number) for number in self.also] + [span])

    @property
    def default_text(self) -> str:
        """The default in words."""
        if self.kind == "linger":
            return "adaptive"
        if self.kind == "acks":
            return "all"
        if isinstance(self.default, bool):
            return str(self.default)
        if isinstance(self.default, tuple):
            return ",".join(str(each) for each in self.default)
        if self.default is None:
            return ""
        return str(self.default)

    def parse(self, key: str, value: Any) -> Any:
        """Turn what a caller gave for `key` into the attribute's value.

        Raises:
            ConfigError: wrong type, or out of range; it names `key`, the range, and the
                value unless it is secret.
        """
        if self.kind == "secret":
            return _parse_secret(self, key, value)
        if not isinstance(value, Secret):
            return self._parse_plain(key, value)
        try:
            found = self._parse_plain(key, value)
        except ConfigError:
            pass  # its text shows the value
        else:
            # Who finds one of them wrong later does not show it either.
            return tuple(map(Secret, found)) if self.kind == "list" else found
        raise ConfigError(f"{key} = {HIDDEN}: must be {self.range_text}", key=key)

    def _parse_plain(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            value = plain_text(value).strip()
        return _PARSERS[self.kind](self, key, value)

    def refuse(self, key: str, value: Any, why: str = "") -> NoReturn:
        """Raise the `ConfigError` for a value outside of the range."""
        try:
            shown = reprlib.repr(value)
        except ValueError:  # Python writes no int of more than 4,300 digits
            shown = f"<{type(value).__name__}>"
        raise ConfigError(
            f"{key} = {shown}: {why or 'must be ' + self.range_text}",
            key=key,
            value=value if isinstance(value, bool | int | float | str) else shown,
        )


def setting(kind: str, default: Any, doc: str, **limits: Any) -> Any:
    """Return a `Setting`, to stand as the default of an attribute."""
    return Setting(kind, doc, default, **limits)


def flag(default: bool, doc: str) -> Any:
    """Return a setting that is true or false."""
    return Setting("boolean", doc, default)


def int32(default: int, doc: str, low: int = 0, high: int = INT32_MAX) -> Any:
    """Return a setting that is a 32-bit number."""
    return Setting("integer", doc, default, low=low, high=high)


def int64(default: int, doc: str, low: int = 0, also: tuple[int, ...] = ()) -> Any:
    """Return a setting that is a 64-bit number."""
    return Setting("integer", doc, default, low=low, also=also)


def choice(default: str, doc: str, *choices: str, any_case: bool = False) -> Any:
    """Return a setting that is one of some words."""
    return Setting("any case" if any_case else "choice", doc, default, choices=choices)


def _has_digits_only(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= most


def _integer(value: Any) -> int | None:
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("+", "-") else value
        return int(value) if _has_digits_only(digits, _INTEGER_DIGITS) else None
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _parse_integer(setting: Setting, key: str, value: Any) -> int:
    number = _integer(value)
    if number is None or not (setting.low <= number <= setting.high or number in setting.also):
        setting.refuse(key, value, f"must be an integer {setting.range_text}")
    return number


def _parse_integer_or_none(setting: Setting, key: str, value: Any) -> int | None:
    return None if value is None else _parse_integer(setting, key, value)


def _parse_decimal(setting: Setting, key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        setting.refuse(key, value)
    if isinstance(value, bool) or not setting.low <= number <= setting.high:
        setting.refuse(key, value)
    return number


def _parse_boolean(setting: Setting, key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    setting.refuse(key, value)


def _parse_string(setting: Setting, key: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        setting.refuse(key, value)
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        setting.refuse(key, value, "cannot be written as UTF-8")
    if size_bytes > _STRING_LIMIT_BYTES:
        setting.refuse(
            key, value, f"takes {size_bytes:,} bytes; Kafka allows {_STRING_LIMIT_BYTES:,}"
        )
    return value


def _parse_choice(setting: Setting, key: str, value: Any) -> str:
    if isinstance(value, str) and value in setting.choices:
        return value
    setting.refuse(key, value)


def _parse_any_case(setting: Setting, key: str, value: Any) -> str:
    if isinstance(value, str):
        for choice in setting.choices:
            if choice.lower() == value.lower():
                return choice
    setting.refuse(key, value)


def _parse_secret(setting: Setting, key: str, value: Any) -> Secret | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a str, not {type(value).__name__}", key=key)
    if not is_unicode(value):
        raise ConfigError(f"{key} = {HIDDEN}: cannot be written as UTF-8", key=key)
    return Secret(value) if value else None


def _parse_path(setting: Setting, key: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    try:
        path = os.fspath(value)
    except TypeError:
        setting.refuse(key, value)
    return os.fsdecode(path)


def _parse_telemetry(setting: Setting, key: str, value: Any) -> bool:
    if _parse_boolean(setting, key, value):
        setting.refuse(key, value, "telemetry (KIP-714) is not in this version; leave it out")
    return False


def _parse_acks(setting: Setting, key: str, value: Any) -> int:
    acks = _ACKS.get(str(value))
    if acks is None:
        setting.refuse(key, value)
    return acks


def _parse_linger(setting: Setting, key: str, value: Any) -> int | None:
    if value is None or (isinstance(value, str) and value.lower() == "adaptive"):
        return None
    number = _integer(value)
    if number is None or not 0 <= number <= INT64_MAX:
        setting.refuse(key, value)
    return min(number, INT32_MAX)


def _parse_encoding(setting: Setting, key: str, value: Any) -> str | None:
    if value is None:
        return None
    try:
        "".encode(value)  # refuses what is a codec, but none for text
        return codecs.lookup(value).name
    except (LookupError, TypeError, ValueError):  # the last one: of a NUL
        setting.refuse(key, value)


def _parse_object(setting: Setting, key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    module_name, colon, path = value.partition(":")
    if not colon:
        module_name, _, path = value.rpartition(".")
    if not module_name or not path:
        setting.refuse(key, value)
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{key} = {value!r}: cannot be imported ({type(error).__name__}: {error}); "
            f"must be {setting.range_text}",
            key=key,
            value=value,
        ) from error
    return found


def _parse_list(setting: Setting, key: str, value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        setting.refuse(key, value)
    found = []
    for item in items:
        if not isinstance(item, str):
            setting.refuse(key, value)
        found.append(item.strip())
    return tuple(filter(None, found))


def _parse_topics(setting: Setting, key: str, value: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_parse_list(setting, key, value)))
    for topic in found:
        try:
            check_topic_name(topic)
        except InvalidTopicError as error:
            setting.refuse(key, value, str(error))
    return found


def _parse_pairs(setting: Setting, key: str, value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str):
        items = [item.strip() for item in value.split(",")]
        value = dict(item.partition("=")[::2] for item in items if item)  # a value may have '='
    if isinstance(value, tuple) and all(isinstance(each, tuple) for each in value):
        value = dict(value)  # of another configuration
    pairs: Mapping[Any, Any] = value if isinstance(value, Mapping) else {None: None}
    if not all(isinstance(name, str) and name and isinstance(pairs[name], str) for name in pairs):
        raise ConfigError(f"{key} must be {setting.range_text}", key=key)  # it may hold a secret
    return tuple(pairs.items())


def _parse_ssl_context(setting: Setting, key: str, value: Any) -> Any:
    from fastprod.security.ssl_context_reader import read_ssl_context  # noqa: PLC0415

    if isinstance(value, str):
        value = _parse_object(setting, key, value)
    return read_ssl_context(key, value)


def _parse_objects(setting: Setting, key: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",")] if value else []
    if not isinstance(value, Iterable):
        setting.refuse(key, value)
    return tuple(_parse_object(setting, key, item) for item in value)


def _parse_addresses(setting: Setting, key: str, value: Any) -> tuple[BootstrapAddress, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        setting.refuse(key, value)
    found: dict[BootstrapAddress, None] = {}
    for item in items:
        if isinstance(item, BootstrapAddress):  # of another ProducerConfig
            found[item] = None
            continue
        if not isinstance(item, str):
            setting.refuse(key, item)
        for entry in item.split(","):
            if entry.strip():
                found[_parse_address(setting, key, entry.strip())] = None
    if not found:
        setting.refuse(key, value, f"names no broker; must be {setting.range_text}")
    return tuple(found)


def _parse_address(setting: Setting, key: str, entry: str) -> BootstrapAddress:
    if "://" in entry:
        setting.refuse(key, entry, "must be host:port; leave out the part up to '://'")
    host, colon, port_text = entry.rpartition(":")
    if not colon or not host:
        setting.refuse(key, entry, "must be host:port, as in 'kafka1:9092'")
    if not _has_digits_only(port_text, _PORT_DIGITS) or not 1 <= int(port_text) <= 65_535:
        setting.refuse(key, entry, "the port must be 1..65535")
    if host.startswith("[") and host.endswith("]"):
        import ipaddress  # noqa: PLC0415

        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            setting.refuse(key, entry, "the part in brackets must be an IPv6 address")
    elif ":" in host:
        setting.refuse(key, entry, "an IPv6 address stands in brackets, as in '[::1]:9092'")
    elif not host.isascii() or not all(each.isalnum() or each in "._-" for each in host):
        setting.refuse(key, entry, "the host may have letters, digits, '.', '-' and '_' only")
    return BootstrapAddress(host, int(port_text))


_PARSERS: dict[str, Callable[[Setting, str, Any], Any]] = {
    "integer": _parse_integer,
    "boolean": _parse_boolean,
    "string": _parse_string,
    "choice": _parse_choice,
    "any case": _parse_any_case,
    "path": _parse_path,
    "decimal": _parse_decimal,
    "integer or none": _parse_integer_or_none,
    "list": _parse_list,
    "topics": _parse_topics,
    "pairs": _parse_pairs,
    "ssl context": _parse_ssl_context,
    "telemetry": _parse_telemetry,
    "acks": _parse_acks,
    "linger": _parse_linger,
    "encoding": _parse_encoding,
    "object": _parse_object,
    "objects": _parse_objects,
    "addresses": _parse_addresses,
}

_RANGE_TEXTS = {
    "boolean": "true or false",
    "string": "a str",
    "choice": "one of %s",
    "any case": "one of %s",
    "path": "the path of a file",
    "list": "a list or a comma-separated str",
    "topics": "a list or a comma-separated str of topic names",
    "pairs": "a mapping or a comma-separated str of name=value",
    "ssl context": "an ssl.SSLContext, a function that returns one, or its import path",
    "secret": "a str, never shown",
    "telemetry": "false (this version)",
    "acks": "all, -1, 0 or 1",
    "linger": "'adaptive' or an integer >= 0",
    "encoding": "the name of a text encoding, such as utf-8",
    "object": "an object, a class or an import path 'module:Class'",
    "objects": "a list of objects, classes or import paths 'module:Class'",
    "addresses": "a list or a comma-separated str of host:port",
}
