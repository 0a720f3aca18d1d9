"""Integers and decimals as text, against Python's own and against Java's forms."""

from __future__ import annotations

import decimal
import random
import sys
from decimal import Decimal

import pytest

from fastprod._core.testing.json_doors import decimal_text_for_test, integer_text_for_test


def java_text(number: int, scale: int) -> str:
    """java.math.BigDecimal.toString, by its documentation."""
    digits = str(abs(number))
    sign = "-" if number < 0 else ""
    exponent = len(digits) - 1 - scale
    if scale >= 0 and exponent >= -6:
        padded = digits.rjust(scale + 1, "0")
        return sign + (f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded)
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}E{exponent:+d}"


def test_integers_of_every_length_are_pythons() -> None:
    for power in range(20):
        for number in (10**power - 1, 10**power, 10**power + 1):
            assert integer_text_for_test(number) == str(number)
            if number < 2**63:
                assert integer_text_for_test(-number) == str(-number)
    for number in (2**63 - 1, 2**63, 2**64 - 1, -(2**63)):
        assert integer_text_for_test(number) == str(number)


def test_decimals_have_the_text_of_javas_bigdecimal() -> None:
    chance = random.Random(2)
    numbers = [0, 1, -1, 10**38 - 1, 1 - 10**38, 10**19, 10**19 - 1, -(2**127), 2**127 - 1, 2**64]
    numbers += [chance.randrange(-(10 ** chance.randrange(1, 39)), 10**9) for _ in range(3_000)]
    for number in numbers:
        for scale in (0, 1, 6, 7, 18, 38, -3, -20):
            text = decimal_text_for_test(number.to_bytes(16, sys.byteorder, signed=True), scale)
            assert text == java_text(number, scale)
            with decimal.localcontext(prec=60):
                assert Decimal(text) == Decimal(number).scaleb(-scale)


def test_a_decimal_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        decimal_text_for_test(b"\0" * 15, 0)
