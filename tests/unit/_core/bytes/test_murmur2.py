"""murmur2: the whole vector table of contract P-C.4, and keys that are not bytes."""

from __future__ import annotations

import pytest

from fastprod._core.bytes import murmur2
from fastprod._core.testing import bytes_doors

# key, signed hash, bits, positive form, and that modulo 3, 6 and 12.
C_4 = [
    (b"21", -973932308, 0xC5F2F8EC, 1173551340, 0, 0, 0),
    (b"foobar", -790332482, 0xD0E47BBE, 1357151166, 0, 0, 6),
    (b"a-little-bit-long-string", -985981536, 0xC53B1DA0, 1161502112, 2, 2, 8),
    (b"a-little-bit-longer-string", -1486304829, 0xA768C9C3, 661178819, 2, 5, 11),
    (
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
        -58897971,
        0xFC7D49CD,
        2088585677,
        2,
        5,
        5,
    ),
    (b"abc", 479470107, 0x1C94221B, 479470107, 0, 3, 3),
    (b"", 275646681, 0x106E08D9, 275646681, 0, 3, 9),
    (b"\x00", 375494588, 0x166197BC, 375494588, 2, 2, 8),
    (b"a", -1563381124, 0xA2D0B27C, 584102524, 1, 4, 4),
    (b"ab", 316155434, 0x12D8262A, 316155434, 2, 2, 2),
    (b"abcd", -1323649548, 0xB11AB5F4, 823834100, 2, 2, 8),
    (b"key", -1079937367, 0xBFA176A9, 1067546281, 1, 1, 1),
    (b"key-1", 193331640, 0x0B8601B8, 193331640, 0, 0, 0),
    (b"hello world", 1221641059, 0x48D0C363, 1221641059, 1, 1, 7),
    (b"user-42", 1459644460, 0x5700682C, 1459644460, 1, 4, 4),
    (bytes.fromhex("c3a9e282acf09d849e"), 983480520, 0x3A9EB8C8, 983480520, 0, 0, 0),
    (b"\xff", -311467685, 0xED6F615B, 1836015963, 0, 3, 3),
    (b"\xff" * 4, 644171429, 0x266546A5, 644171429, 2, 5, 5),
    (bytes.fromhex("8081828384"), -1665622439, 0x9CB89E59, 481861209, 0, 3, 9),
    (bytes(range(256)), -1948347274, 0x8BDE9476, 199136374, 1, 4, 10),
]


@pytest.mark.parametrize(("key", "signed", "bits", "positive", "of_3", "of_6", "of_12"), C_4)
def test_every_row_of_the_vector_table(
    key: bytes, signed: int, bits: int, positive: int, of_3: int, of_6: int, of_12: int
) -> None:
    """Contract P-C.4; its rows 1-6 are P-L.81."""
    got = murmur2.hash_key(key)
    assert got == signed
    assert got & 0xFFFFFFFF == bits
    assert got & 0x7FFFFFFF == positive
    assert [positive % count for count in (3, 6, 12)] == [of_3, of_6, of_12]


def test_an_even_number_of_rounds_cancels_out_and_an_odd_one_is_the_hash() -> None:
    assert bytes_doors.hash_rounds_for_test(b"21", 1) == 0xC5F2F8EC
    assert bytes_doors.hash_rounds_for_test(b"21", 2) == 0
    assert bytes_doors.hash_rounds_for_test(b"21", 3) == 0xC5F2F8EC


def test_any_contiguous_buffer_is_a_key() -> None:
    assert murmur2.hash_key(bytearray(b"foobar")) == -790332482
    assert murmur2.hash_key(memoryview(b"xfoobary")[1:-1]) == -790332482


def test_text_and_strided_buffers_are_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        murmur2.hash_key("21")  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="contiguous"):
        murmur2.hash_key(memoryview(b"abcdef")[::2])


def test_a_buffer_is_given_back() -> None:
    key = bytearray(b"key")
    murmur2.hash_key(key)
    bytes_doors.hash_rounds_for_test(key, 1)
    key.append(1)
    assert key == b"key\x01"
