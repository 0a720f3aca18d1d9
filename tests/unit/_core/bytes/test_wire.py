"""Big-endian loads and stores against int.to_bytes (contract P-J.1.1)."""

from __future__ import annotations

import pytest

from fastprod._core.testing import bytes_doors

VALUES = [
    0,
    1,
    0x0102030405060708,
    0x8000000000000000,
    0xFFFFFFFFFFFFFFFF,
    0x00FF00FF00FF00FF,
    0x8081828384858687,
]


@pytest.mark.parametrize("value", VALUES)
def test_stores_write_the_low_bits_in_network_order(value: int) -> None:
    low_32 = value & 0xFFFFFFFF
    assert bytes_doors.put_for_test(value) == (
        (value & 0xFFFF).to_bytes(2, "big"),
        low_32.to_bytes(4, "big"),
        value.to_bytes(8, "big"),
    )


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("value", VALUES)
def test_loads_read_network_order_at_any_alignment(value: int, offset: int) -> None:
    data = bytes(range(0xA0, 0xA0 + offset)) + value.to_bytes(8, "big") + b"\xee"
    assert bytes_doors.get_for_test(data, offset) == (
        value >> 48,
        value >> 32,
        value,
        int.from_bytes((value >> 32).to_bytes(4, "big"), "little"),
    )


@pytest.mark.parametrize("bits", range(64))
def test_leading_zeros_are_counted_from_bit_63(bits: int) -> None:
    assert bytes_doors.leading_zeros_for_test(1 << bits) == 63 - bits
    assert bytes_doors.leading_zeros_for_test(2 ** (bits + 1) - 1) == 63 - bits


def test_the_doors_refuse_what_would_be_undefined() -> None:
    with pytest.raises(ValueError, match="8 bytes are read at offset 1, but there are 8"):
        bytes_doors.get_for_test(bytes(8), 1)
    with pytest.raises(ValueError, match="undefined"):
        bytes_doors.leading_zeros_for_test(0)
