"""Values of the records: the same bytes for every client."""

from __future__ import annotations

import random

from bench.workload import VALUE_COUNT

_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"


def make_values(kind: str) -> list[bytes]:
    """VALUE_COUNT different values.

    Args:
        kind: "text-<bytes>", random letters of that size, or "json-lines", about 175 bytes each.

    Raises:
        ValueError: the kind is neither.
    """
    choose = random.Random(kind)
    name, _, size = kind.partition("-")
    if kind == "json-lines":
        return [_json_line(choose, number) for number in range(VALUE_COUNT)]
    if name == "text" and size.isdigit():
        return [bytes(choose.choices(_LETTERS, k=int(size))) for _ in range(VALUE_COUNT)]
    raise ValueError(f"values {kind!r}: must be text-<bytes> or json-lines")


def _json_line(choose: random.Random, number: int) -> bytes:
    event = choose.choice(["click", "view", "purchase", "scroll"])
    tags = choose.sample(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"], 2)
    return (
        f'{{"id": {number}, "user": "user-{choose.randrange(100_000)}", "event": "{event}", '
        f'"ts": {1_700_000_000_000 + number * 13}, "price": {choose.randrange(10_000) / 100}, '
        f'"tags": ["{tags[0]}", "{tags[1]}"], "ok": true, '
        f'"session": "{choose.getrandbits(64):016x}"}}'
    ).encode()
