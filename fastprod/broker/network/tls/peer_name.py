"""The name in a client's certificate, as Kafka writes it into a principal (RFC 2253)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_VERSION: Final = 0xA0
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Tags of texts, and how they are written."""

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SPECIAL: Final = ',+"\\<>;'
_LONG_LENGTH: Final = 0x80


class _Item(NamedTuple):
    """A value in DER.

    Attributes:
        tag: what it is.
        body: its content.
        whole: tag and length, too.
    """

    tag: int
    body: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER, as "CN=ada,O=Example".

    Raises:
        ValueError: it is no certificate.
    """
    try:
        (outer,) = _items(certificate)
        signed = next(_items(outer.body))
        fields = [each for each in _items(signed.body) if each.tag != _VERSION]
        subject = fields[4]
        names = [_relative_name(each) for each in _items(subject.body)]
    except (ValueError, IndexError, StopIteration) as error:
        raise ValueError("this is no certificate in DER") from error
    return ",".join(reversed(names))


def _items(data: bytes) -> Iterator[_Item]:
    at = 0
    while at < len(data):
        start, tag, size = at, data[at], data[at + 1]
        at += 2
        if size & _LONG_LENGTH:
            count = size & ~_LONG_LENGTH
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + size > len(data):
            raise ValueError("a value ends early")
        yield _Item(tag, data[at : at + size], data[start : at + size])
        at += size


def _relative_name(one: _Item) -> str:
    """The attributes that belong together, usually one."""
    parts = []
    for attribute in _items(one.body):
        kind, value = _items(attribute.body)
        if one.tag != _SET or attribute.tag != _SEQUENCE or kind.tag != _OID:
            raise ValueError("this is no name")
        parts.append(_attribute(_dotted(kind.body), value))
    return "+".join(parts)


def _attribute(oid: str, value: _Item) -> str:
    keyword, encoding = _KEYWORDS.get(oid), _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.body.decode(encoding))}"


def _escaped(text: str) -> str:
    found = "".join(f"\\{each}" if each in _SPECIAL else each for each in text)
    if found.startswith(("#", " ")):
        found = f"\\{found}"
    if text.endswith(" ") and len(text) > 1:
        found = f"{found[:-1]}\\ "
    return found


def _dotted(data: bytes) -> str:
    numbers = []
    number = 0
    for each in data:
        number = number << 7 | each & 0x7F
        if not each & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
