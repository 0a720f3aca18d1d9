"""The growing text."""

from __future__ import annotations

import random

from fastprod._core.testing.json_doors import text_for_test


def test_what_is_put_is_there_in_order_however_often_it_grew() -> None:
    chance = random.Random(1)
    pieces: list[bytes | int] = []
    for _ in range(3_000):
        pieces.append(chance.randbytes(chance.choice([0, 1, 7, 4_096, 9_000])))
        pieces.append(chance.randrange(256))
    wanted = b"".join(bytes([each]) if isinstance(each, int) else each for each in pieces)
    assert text_for_test(pieces) == wanted


def test_nothing_put_is_an_empty_text() -> None:
    assert text_for_test([b"", b""]) == b""
