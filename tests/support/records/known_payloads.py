"""Bytes to compress: text as services log it, noise, and how to cut them."""

from __future__ import annotations

import random

KIB = 1024


def json_lines(n_bytes: int) -> bytes:
    choose = random.Random(7)
    lines = []
    size = 0
    while size < n_bytes:
        line = b'{"id": %d, "user": "user-%d", "event": "%s", "price": %d.%02d, "ok": true}' % (
            size,
            choose.randrange(100_000),
            choose.choice([b"click", b"view", b"purchase"]),
            choose.randrange(1000),
            choose.randrange(100),
        )
        lines.append(line)
        size += len(line)
    return b"".join(lines)[:n_bytes]


TEXT = json_lines(300_000)
NOISE = random.Random(5).randbytes(200_000)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
