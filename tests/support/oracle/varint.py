"""Varints by divmod (contract P-E.3.1, P-E.3.3)."""

from __future__ import annotations


def zigzag(value: int) -> int:
    """Return 0, 1, 2, 3, 4 for 0, -1, 1, -2, 2."""
    return 2 * value if value >= 0 else -2 * value - 1


def unzigzag(number: int) -> int:
    """Undo `zigzag`."""
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


def encode_unsigned(value: int) -> bytes:
    """Return groups of 7 bits, lowest first, 128 added to all but the last."""
    groups: list[int] = []
    while True:
        value, group = divmod(value, 128)
        if value == 0:
            return bytes([*groups, group])
        groups.append(group + 128)


def encode(value: int) -> bytes:
    """Return the zigzag varint of `value`."""
    return encode_unsigned(zigzag(value))


def decode_unsigned(data: bytes, max_bytes: int) -> tuple[int, int] | None:
    """Return (value, bytes read), or None if cut short, too long, or over 32 or 64 bits."""
    value = 0
    for i, byte in enumerate(data[:max_bytes]):
        value += byte % 128 * 128**i
        if byte < 128:
            limit = 2**32 if max_bytes == 5 else 2**64
            return (value, i + 1) if value < limit else None
    return None


def decode(data: bytes, max_bytes: int) -> tuple[int, int] | None:
    """Return (value, bytes read) of a zigzag varint, or None as `decode_unsigned` does."""
    got = decode_unsigned(data, max_bytes)
    return None if got is None else (unzigzag(got[0]), got[1])
