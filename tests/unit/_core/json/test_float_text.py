"""Floating-point numbers as text: the fewest digits that read back, in Java's form."""

from __future__ import annotations

import math
import random
import re
import struct
from decimal import Decimal

import numpy
import pytest

from fastprod._core.testing.json_doors import double_text_for_test, float_text_for_test

FORM = re.compile(r"-?(0\.(0{0,2}[1-9]\d*|0)|[1-9]\d{0,6}\.(0|\d*[1-9])|[1-9]\.(0|\d*[1-9])E-?\d+)")


def digit_count(text: str) -> int:
    """Of the number, without zeros at its ends."""
    return len("".join(map(str, Decimal(text).as_tuple().digits)).strip("0"))


def doubles() -> list[float]:
    """All powers of two and their neighbours, and random numbers of several kinds."""
    chance = random.Random(3)
    found = [math.ldexp(1.0, power) for power in range(-1074, 1024)]
    found += [math.nextafter(each, way) for each in found for way in (0.0, math.inf)]
    found += [struct.unpack("d", chance.randbytes(8))[0] for _ in range(20_000)]
    found += [chance.randrange(-(10**9), 10**9) / 100 for _ in range(5_000)]
    found += [float(chance.randrange(-(2**60), 2**60)) for _ in range(5_000)]
    return [each for each in found if math.isfinite(each)]


def test_a_double_reads_back_and_no_shorter_text_would() -> None:
    for number in doubles():
        text = double_text_for_test(number)
        assert float(text) == number, number.hex()
        # Python's repr is the shortest, and of those the nearest.
        assert Decimal(text) == Decimal(repr(number)), number.hex()
        assert FORM.fullmatch(text), text


def test_a_float_reads_back_and_no_shorter_text_would() -> None:
    bits = numpy.random.default_rng(4).integers(0, 2**32, 50_000, numpy.uint32)
    powers = numpy.arange(1, 255, dtype=numpy.uint32) << 23
    every = numpy.concatenate([bits, powers, powers - 1, powers + 1, numpy.arange(1, 2_000)])
    for number in every.astype(numpy.uint32).view(numpy.float32):
        if not numpy.isfinite(number):
            continue
        text = float_text_for_test(float(number))
        assert numpy.float32(text) == number, text
        assert digit_count(text) == digit_count(str(number)), text
        assert FORM.fullmatch(text), text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (123.456, "123.456"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1e-3, "0.001"),
        (9.9e-4, "9.9E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1e23, "1.0E23"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_the_form_is_javas(number: float, text: str) -> None:
    assert double_text_for_test(number) == text
    if math.isinf(number) or math.isnan(number) or abs(number) in (0.0, 1.0, 1e7):
        assert float_text_for_test(number) == text
