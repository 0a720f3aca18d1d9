"""Size-prefixed frames, the slow and obvious way."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable


def frame(payload: bytes) -> bytes:
    """The payload behind its int32 big-endian size."""
    return struct.pack(">i", len(payload)) + payload


def frames_of(stream: bytes) -> list[bytes]:
    """The payloads of every complete frame in `stream`."""
    payloads = []
    while len(stream) >= 4:
        (size,) = struct.unpack(">i", stream[:4])
        if len(stream) < 4 + size:
            break
        payloads.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return payloads


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """`stream` in pieces, cut at the given offsets (taken modulo its length)."""
    offsets = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[a:b] for a, b in itertools.pairwise(offsets)]
