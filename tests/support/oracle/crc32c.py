"""CRC-32C one bit at a time, and combining by feeding zero bytes: slow and obvious."""

from __future__ import annotations

REVERSED_POLYNOMIAL = 0x82F63B78


def _shift_in(register: int, byte: int) -> int:
    register ^= byte
    for _ in range(8):
        register = (register >> 1) ^ (REVERSED_POLYNOMIAL if register & 1 else 0)
    return register


def prefixes(data: bytes, crc: int = 0) -> list[int]:
    """Return the finished CRC of every prefix of `data`, the empty one first."""
    register = crc ^ 0xFFFFFFFF
    out = [crc]
    for byte in data:
        register = _shift_in(register, byte)
        out.append(register ^ 0xFFFFFFFF)
    return out


def checksum(data: bytes, crc: int = 0) -> int:
    """Return the finished CRC of `data` that follows bytes with the finished CRC `crc`."""
    return prefixes(data, crc)[-1]


def combine(crc_a: int, crc_b: int, len_b: int) -> int:
    """Return the finished CRC of A+B: A's register pushed over B's length in zero bytes."""
    for _ in range(len_b):
        crc_a = _shift_in(crc_a, 0)
    return crc_a ^ crc_b
