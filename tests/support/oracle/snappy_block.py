"""Raw Snappy blocks, read one byte after the other."""

from __future__ import annotations


def uvarint(value: int) -> bytes:
    """The length in front of a block: groups of 7 bits, low group first."""
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def _read_length(raw: bytes) -> tuple[int, int] | None:
    value, weight = 0, 1
    for i, byte in enumerate(raw[:5]):
        value += byte % 128 * weight
        weight *= 128
        if byte < 128:
            return value, i + 1
    return None


def decode(raw: bytes) -> bytes | None:
    """What the block holds; None when it is not sound."""
    length = _read_length(raw)
    if length is None:
        return None
    size, at = length
    out = bytearray()
    while at < len(raw):
        kind, number = raw[at] % 4, raw[at] // 4
        at += 1
        width = [max(0, number - 59), 1, 2, 4][kind]
        if width > len(raw) - at:
            return None
        extra = int.from_bytes(raw[at : at + width], "little")
        at += width
        if kind == 0:
            n = (extra if width else number) + 1
            if n > len(raw) - at:
                return None
            out += raw[at : at + n]
            at += n
            continue
        n, back = (4 + number % 8, number // 8 * 256 + extra) if kind == 1 else (number + 1, extra)
        if not 1 <= back <= len(out):
            return None
        for _ in range(n):
            out.append(out[-back])
    return bytes(out) if len(out) == size else None
