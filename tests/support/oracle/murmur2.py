"""Kafka's murmur2 in plain integers, step by step as contract P-C.4 lists it."""

from __future__ import annotations

M = 0x5BD1E995
SEED = 0x9747B28C
MASK = 0xFFFFFFFF


def unsigned(key: bytes) -> int:
    """Return the 32 bits of the hash as 0..2**32-1."""
    full = len(key) // 4 * 4
    h = SEED ^ len(key)
    for start in range(0, full, 4):
        k = int.from_bytes(key[start : start + 4], "little")
        k = k * M & MASK
        k ^= k >> 24
        k = k * M & MASK
        h = h * M & MASK
        h ^= k
    tail = key[full:]
    if tail:
        h ^= int.from_bytes(tail, "little")
        h = h * M & MASK
    h ^= h >> 13
    h = h * M & MASK
    return h ^ (h >> 15)


def signed(key: bytes) -> int:
    """Return the hash as Java's int."""
    h = unsigned(key)
    return h - 2**32 if h >= 2**31 else h
