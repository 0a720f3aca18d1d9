"""Serializers: what turns a key or a value into bytes (P-C.2).

A serializer is called as ``(topic, headers, data)`` and returns bytes or None.  `BoundSerializer`
makes one shape of all that users bring: our classes, objects with ``serialize(topic, headers,
data)``, functions of one argument, and functions that take confluent-kafka's context.
"""

from __future__ import annotations

import codecs
import operator
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from fastprod.errors import ConfigError, SerializationError
from fastprod.plugin_loading import make_plugin, plugin_name, positional_parameters
from fastprod.records import Headers

Serialize = Callable[[str, Headers, Any], Any]


class Serializer:
    """Base of the built-in serializers, and of users' own.

    `configure` is called once, before the first record, unless the user made the object; `close`
    once, when the producer closes.  A serializer must be callable from several threads at a time.
    """

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """Take what it needs from the settings, under their dotted names."""

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return `data` as bytes, or None for None; may add to `headers`."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what it holds."""


class BytesSerializer(Serializer):
    """Bytes as they are: bytes, bytearray or memoryview, copied if they can change."""

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise _wrong_type(self, data, "bytes, bytearray, memoryview or None")


class StringSerializer(Serializer):
    """Text in an encoding.

    Args:
        encoding: any text encoding Python knows; default utf-8.  `configure` takes it from
            key.serializer.encoding or value.serializer.encoding, else from serializer.encoding.

    Raises:
        ConfigError: the encoding is unknown.
    """

    expects = "str or None"

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = _known_encoding(encoding)

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        name = "key.serializer.encoding" if is_key else "value.serializer.encoding"
        encoding = config.get(name) or config.get("serializer.encoding")
        if encoding:
            self.encoding = _known_encoding(encoding)

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        try:
            return self.text(data).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(
                f"{type(self).__name__} cannot write character {error.start} of the text in "
                f"{self.encoding}: {error.reason}",
                position=error.start,
                encoding=self.encoding,
            ) from error

    def text(self, data: Any) -> str:
        """Return `data` as the text to encode."""
        if isinstance(data, str):
            return data
        raise _wrong_type(self, data, self.expects)


class UUIDSerializer(StringSerializer):
    """A `uuid.UUID` as its text of 36 characters, in an encoding."""

    expects = "uuid.UUID or None"

    def text(self, data: Any) -> str:
        # Whoever has one has imported it: the module takes longer than all serializers.
        module = sys.modules.get("uuid")
        if module is not None and isinstance(data, module.UUID):
            return str(data)
        raise _wrong_type(self, data, self.expects)


class _IntegerSerializer(Serializer):
    """Big-endian two's complement, `size_bytes` wide."""

    size_bytes: ClassVar[int]

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        try:
            if isinstance(data, bool):
                raise TypeError
            number = operator.index(data)
        except TypeError:
            raise _wrong_type(self, data, "int or None") from None
        limit = 1 << (8 * self.size_bytes - 1)
        if not -limit <= number < limit:
            raise SerializationError(
                f"{type(self).__name__} takes {-limit:,}..{limit - 1:,}, not {number:,}; use a "
                f"wider one",
                value=number,
                low=-limit,
                high=limit - 1,
            )
        return number.to_bytes(self.size_bytes, "big", signed=True)


class Int16Serializer(_IntegerSerializer):
    """An integer in 2 bytes, big-endian, as Java's ShortSerializer."""

    size_bytes = 2


class Int32Serializer(_IntegerSerializer):
    """An integer in 4 bytes, big-endian, as Java's IntegerSerializer."""

    size_bytes = 4


class Int64Serializer(_IntegerSerializer):
    """An integer in 8 bytes, big-endian, as Java's LongSerializer."""

    size_bytes = 8


class _FloatSerializer(Serializer):
    """IEEE 754, big-endian."""

    layout: ClassVar[struct.Struct]

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        if isinstance(data, bool | str):
            raise _wrong_type(self, data, "float or None")
        try:
            return self.layout.pack(data)
        except OverflowError as error:
            raise SerializationError(
                f"{type(self).__name__} cannot hold {data!r}: {error}; use a wider one", value=data
            ) from error
        except struct.error:
            raise _wrong_type(self, data, "float or None") from None


class Float32Serializer(_FloatSerializer):
    """A number in 4 bytes, rounded, as Java's FloatSerializer."""

    layout = struct.Struct(">f")


class Float64Serializer(_FloatSerializer):
    """A number in 8 bytes, as Java's DoubleSerializer."""

    layout = struct.Struct(">d")


class VoidSerializer(Serializer):
    """Nothing but None."""

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if data is None:
            return None
        raise _wrong_type(self, data, "None")


class SerializationContext(NamedTuple):
    """What a serializer written for confluent-kafka gets beside the data.

    Attributes:
        topic: topic name.
        field: "key" or "value".
        headers: the record's, a list of (name, value) pairs as there; those that are in it when the
            serializer returns are sent.
    """

    topic: str
    field: str
    headers: list[tuple[str, bytes | None]]


class BoundSerializer:
    """A key or value serializer ready for use: one call shape, checked results, closed once.

    Args:
        given: what the user configured: None (bytes), a serializer class (made and configured
            here), an object (used as it is, not configured: P-A.1.1), or a function.
        config: the settings by dotted name, for `configure`.
        is_key: whether it serializes keys.

    Attributes:
        field: "key" or "value".
        target: the user's object, made if a class was given.
        needs_headers: whether it looks at a record's headers; a function of the data alone does
            not.

    Raises:
        ConfigError: `given` cannot be called as a serializer, or its class cannot be made.

    Threads: any, as far as the user's serializer allows it.
    """

    __slots__ = ("_call", "_closed", "field", "needs_headers", "target")

    def __init__(self, given: Any, config: Mapping[str, Any], *, is_key: bool) -> None:
        self.field = "key" if is_key else "value"
        self.target = _made(given, config, is_key)
        self._call, self.needs_headers = _three_arguments(self.target, self.field)
        self._closed = False

    def __call__(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Serialize.

        Raises:
            SerializationError: the serializer met a type it cannot take (P-A.3.4), or returned
                something other than bytes or None.
            Exception: whatever else the user's serializer raises, unchanged (P-A.3.12).
        """
        try:
            result = self._call(topic, headers, data)
        except (TypeError, AttributeError) as error:
            # AttributeError too: `value.encode()` is how Python says that a type is wrong.
            raise SerializationError(
                f"the {self.field} serializer {plugin_name(self.target)} cannot take a "
                f"{type(data).__name__} for topic {topic!r}: {error}",
                topic=topic,
                field=self.field,
            ) from error
        if result is None or type(result) is bytes:
            return result
        if isinstance(result, bytes | bytearray | memoryview):
            return bytes(result)
        raise SerializationError(
            f"the {self.field} serializer {plugin_name(self.target)} returned a "
            f"{type(result).__name__} for topic {topic!r}; it must return bytes or None",
            topic=topic,
            field=self.field,
        )

    def close(self) -> None:
        """Close the serializer, if it can be closed; a second call does nothing (P-C.2.2)."""
        if not self._closed:
            self._closed = True
            close = getattr(self.target, "close", None)
            if callable(close) and not isinstance(self.target, type):
                close()


def close_serializers(*serializers: BoundSerializer) -> None:
    """Close each, an object that serves twice only once (P-C.2.2).

    Raises:
        Exception: the first one that a `close` raised, after all were closed (P-A.9.6).
    """
    first_error: Exception | None = None
    closed: list[Any] = []
    for each in serializers:
        if any(each.target is target for target in closed):
            continue
        closed.append(each.target)
        try:
            each.close()
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _made(given: Any, config: Mapping[str, Any], is_key: bool) -> Any:
    if given is None:
        return BytesSerializer()
    if not isinstance(given, type) or not _is_serializer_class(given):
        return given
    key = "key_serializer" if is_key else "value_serializer"
    return make_plugin(key, given, config, is_key)


def _is_serializer_class(kind: type) -> bool:
    """Whether `kind`'s objects serialize; else, like `bytes`, the class itself is the function."""
    return any("serialize" in base.__dict__ or "__call__" in base.__dict__ for base in kind.__mro__)


def _three_arguments(target: Any, field: str) -> tuple[Serialize, bool]:
    """Find out once how `target` wants to be called (P-C.2.1), and whether with headers."""
    serialize = getattr(target, "serialize", None)
    if callable(serialize):
        found: Serialize = serialize
        if _argument_count(found) == 2:  # kafka-python before 3.0
            return lambda topic, headers, data: serialize(topic, data), False
        return found, True
    if isinstance(target, Serializer):
        return target, type(target).__module__ != __name__  # ours look at none
    if not callable(target):
        raise ConfigError(
            f"{field}_serializer = {target!r}: must be callable, or have serialize(topic, headers, "
            f"data)",
            key=f"{field}_serializer",
        )
    count = _argument_count(target)
    if count == 3:
        return target, True
    if count == 2:
        return _with_context(target, field), True
    if count == 1:
        return lambda topic, headers, data: target(data), False
    raise ConfigError(
        f"{field}_serializer = {plugin_name(target)}: takes {count} arguments; it must take "
        f"(data), (data, context) or (topic, headers, data)",
        key=f"{field}_serializer",
        argument_count=count,
    )


def _with_context(target: Callable[..., Any], field: str) -> Serialize:
    """Call as confluent-kafka does, whose serializers add headers to nothing but a list or dict."""

    def serialize(topic: str, headers: Headers, data: Any) -> Any:
        pairs = headers.to_list()
        result = target(data, SerializationContext(topic, field, pairs))
        headers._replace(pairs)
        return result

    return serialize


def _argument_count(function: Callable[..., Any]) -> int:
    """Return how many arguments `function` needs, taking one that needs none for one of one."""
    parameters = positional_parameters(function)
    if parameters is None:
        return 1
    named = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
    needed_count = sum(each.default is each.empty for each in named)
    # confluent-kafka's serializers name it so, and give it a default that they then refuse.
    if needed_count == 1 and len(named) > 1 and named[1].name == "ctx":
        return 2
    return 1 if needed_count == 0 and parameters else needed_count


def _known_encoding(encoding: str) -> str:
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError) as error:
        raise ConfigError(
            f"serializer encoding {encoding!r} is not known; name one that Python knows, such as "
            f"utf-8",
            value=str(encoding),
        ) from error


def _wrong_type(serializer: Serializer, data: Any, expected: str) -> SerializationError:
    is_text = isinstance(serializer, BytesSerializer) and isinstance(data, str)
    hint = "; use StringSerializer, or encode it" if is_text else ""
    return SerializationError(
        f"{type(serializer).__name__} takes {expected}, not {type(data).__name__}{hint}",
        expected=expected,
        found=type(data).__name__,
    )
