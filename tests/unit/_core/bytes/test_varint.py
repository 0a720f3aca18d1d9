"""Varints: the vectors of contract P-E.3.2 and P-E.3.3, and inputs that must be refused (P-E.3.1).

Together they are the ByteUtilsTest P-L.188.
"""

from __future__ import annotations

import pytest

from fastprod._core.testing import bytes_doors

INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)

E_3_2 = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "80 01"),
    (-65, "81 01"),
    (8191, "fe 7f"),
    (-8192, "ff 7f"),
    (8192, "80 80 01"),
    (1048576, "80 80 80 01"),
    (INT_MAX, "fe ff ff ff 0f"),
    (INT_MIN, "ff ff ff ff 0f"),
    (17179869183, "fe ff ff ff 7f"),
    (LONG_MAX, "fe" + "ff" * 8 + "01"),
    (LONG_MIN, "ff" * 9 + "01"),
]

E_3_3 = [
    (0, "00"),
    (63, "3f"),
    (64, "40"),
    (8191, "ff 3f"),
    (8192, "80 40"),
    (INT_MAX, "ff ff ff ff 07"),
]


@pytest.mark.parametrize(("value", "encoded"), E_3_2)
def test_zigzag_vectors_both_ways(value: int, encoded: str) -> None:
    """P-E.3.2."""
    data = bytes.fromhex(encoded)
    assert bytes_doors.varint_encode_for_test(value) == data
    assert bytes_doors.varint_size_for_test(value) == len(data)
    assert bytes_doors.varint_decode_for_test(data, 10) == (value, len(data))


@pytest.mark.parametrize(
    ("value", "encoded"), [row for row in E_3_2 if INT_MIN <= row[0] <= INT_MAX]
)
def test_zigzag_vectors_of_an_int_fit_five_bytes(value: int, encoded: str) -> None:
    """P-E.3.1, P-E.3.2."""
    data = bytes.fromhex(encoded)
    assert bytes_doors.varint_decode_for_test(data, 5) == (value, len(data))


@pytest.mark.parametrize(("value", "encoded"), E_3_3)
def test_unsigned_vectors_both_ways(value: int, encoded: str) -> None:
    """P-E.3.3."""
    data = bytes.fromhex(encoded)
    assert bytes_doors.uvarint_encode_for_test(value) == data
    assert bytes_doors.uvarint_size_for_test(value) == len(data)
    assert bytes_doors.uvarint_decode_for_test(data, 5) == (value, len(data))
    assert bytes_doors.uvarint_decode_for_test(data, 10) == (value, len(data))


@pytest.mark.parametrize("max_bytes", [5, 10])
def test_one_byte_too_many_is_refused(max_bytes: int) -> None:
    """P-E.3.1: longer input is an error, whatever follows."""
    data = b"\x80" * max_bytes + b"\x00"
    assert bytes_doors.varint_decode_for_test(data, max_bytes) is None
    assert bytes_doors.uvarint_decode_for_test(data, max_bytes) is None


@pytest.mark.parametrize(
    ("last_good", "first_bad", "max_bytes"),
    [("ff ff ff ff 0f", "ff ff ff ff 10", 5), ("ff" * 9 + "01", "ff" * 9 + "02", 10)],
)
def test_bits_beyond_the_width_are_refused(last_good: str, first_bad: str, max_bytes: int) -> None:
    """P-E.3.1: the last byte has room for more bits than the number."""
    widest = 2**32 - 1 if max_bytes == 5 else 2**64 - 1
    good, bad = bytes.fromhex(last_good), bytes.fromhex(first_bad)
    assert bytes_doors.uvarint_decode_for_test(good, max_bytes) == (widest, max_bytes)
    assert bytes_doors.uvarint_decode_for_test(bad, max_bytes) is None
    assert bytes_doors.varint_decode_for_test(bad, max_bytes) is None


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff", b"\x80" * 9])
def test_a_varint_cut_short_is_refused(data: bytes) -> None:
    """P-E.3.1."""
    assert bytes_doors.varint_decode_for_test(data, 10) is None
    assert bytes_doors.uvarint_decode_for_test(data, 10) is None


def test_what_follows_a_varint_is_left_alone() -> None:
    assert bytes_doors.varint_decode_for_test(b"\x80\x01\xff\xff", 5) == (64, 2)
    assert bytes_doors.uvarint_decode_for_test(b"\x80\x40\xff", 5) == (8192, 2)
