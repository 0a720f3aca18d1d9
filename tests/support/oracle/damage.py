"""Messages with faults in them, as many kinds as a broken or hostile peer may send."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

EXTREMES = [
    struct.pack(code, value)
    for code, values in (
        (">b", (-1, 127, -128)),
        (">h", (-1, 0, 32767, -32768)),
        (">i", (-2, -1, 0, 1, 2**31 - 1, -(2**31), 1_000_000)),
        (">q", (-2, -1, 0, 2**63 - 1, -(2**63))),
    )
    for value in values
] + [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x01", b"\x80" * 12]
"""Numbers of Kafka's protocol at the ends of their ranges."""


def damaged(
    message: bytes,
    others: Sequence[bytes],
    chance: random.Random,
    *,
    header_bytes: int = 0,
    extremes: Sequence[bytes] = EXTREMES,
) -> bytes:
    """The message with one to four faults.

    Args:
        message: as it should be.
        others: messages whose ends may come in its place; none of them is empty.
        chance: what decides.
        header_bytes: the first so many are mostly spared.
        extremes: what is written over a part of it.
    """
    data = bytearray(message)
    for _ in range(chance.randint(1, 4)):
        first = 0 if chance.random() < 0.1 else min(header_bytes, len(data))
        at = chance.randint(first, max(first, len(data)))
        kind = chance.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randint(1, 20))
        elif kind == 3:
            extreme = chance.choice(extremes)
            data[at : at + len(extreme)] = extreme
        elif kind == 4:
            other = chance.choice(others)
            start = chance.randrange(len(other))
            data[at:] = other[start:]
        elif kind == 5:
            del data[at : at + chance.randint(1, 8)]
        else:
            size = chance.randint(1, 60)
            data[at:at] = data[at : at + size] * chance.randint(1, 50)
    return bytes(data)
