"""CRC-32C against the bitwise oracle and against the `crc32c` package, on every path."""

from __future__ import annotations

import random
from itertools import pairwise

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.bytes import crc32c
from fastprod._core.testing import bytes_doors
from support.oracle import crc32c as oracle

PATHS = crc32c.backends()
REGISTER = st.integers(min_value=0, max_value=2**32 - 1)
NOISE = random.Random(1).randbytes(7000)
# A round of three full lanes is 3072 bytes; around its multiples the lanes are cut anew.
ROUND_EDGES = [n for rounds in (1, 2) for n in range(3072 * rounds - 30, 3072 * rounds + 130)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("start", range(8))
def test_every_length_at_every_misalignment(path: str, start: int) -> None:
    expected = oracle.prefixes(NOISE[start : start + 2000])
    view = memoryview(NOISE)
    got = [bytes_doors.update_for_test(path, 0, view[start : start + n]) for n in range(2001)]
    assert got == expected


@pytest.mark.parametrize("path", PATHS)
def test_every_length_around_full_rounds(path: str) -> None:
    expected = oracle.prefixes(NOISE[3:])
    view = memoryview(NOISE)[3:]
    for n in ROUND_EDGES:
        assert bytes_doors.update_for_test(path, 0, view[:n]) == expected[n], n


@pytest.mark.parametrize("path", PATHS)
@given(data=st.binary(max_size=700), crc=REGISTER)
def test_every_path_continues_any_crc_like_the_oracle(path: str, data: bytes, crc: int) -> None:
    assert bytes_doors.update_for_test(path, crc, data) == oracle.checksum(data, crc)


@pytest.mark.parametrize("path", PATHS)
@given(seed=st.integers(min_value=0), n_bytes=st.integers(min_value=0, max_value=1 << 17))
def test_every_path_agrees_with_the_package_on_large_buffers(
    path: str, seed: int, n_bytes: int
) -> None:
    data = random.Random(seed).randbytes(n_bytes)
    assert bytes_doors.update_for_test(path, 0, data) == package.crc32c(data)


@given(data=st.binary(max_size=2000))
def test_checksum_agrees_with_the_package_and_the_oracle(data: bytes) -> None:
    assert crc32c.checksum(data) == package.crc32c(data) == oracle.checksum(data)


@pytest.mark.parametrize("path", PATHS)
@given(data=st.binary(max_size=1500), cuts=st.lists(st.integers(min_value=0, max_value=1500)))
def test_pieces_give_the_crc_of_the_whole(path: str, data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    crc = 0
    for start, end in pairwise(edges):
        crc = bytes_doors.update_for_test(path, crc, data[start:end])
    assert crc == package.crc32c(data)


@pytest.mark.parametrize("path", PATHS)
@given(a=st.binary(max_size=300), b=st.binary(max_size=300))
def test_combining_gives_the_crc_of_the_whole(path: str, a: bytes, b: bytes) -> None:
    crc_a, crc_b = package.crc32c(a), package.crc32c(b)
    assert bytes_doors.combine_for_test(path, crc_a, crc_b, len(b)) == package.crc32c(a + b)


@pytest.mark.parametrize("path", PATHS)
@given(crc_a=REGISTER, crc_b=REGISTER, len_b=st.integers(min_value=0, max_value=3000))
def test_combining_any_registers_agrees_with_the_oracle(
    path: str, crc_a: int, crc_b: int, len_b: int
) -> None:
    got = bytes_doors.combine_for_test(path, crc_a, crc_b, len_b)
    assert got == oracle.combine(crc_a, crc_b, len_b)


@pytest.mark.parametrize("path", PATHS)
@given(
    crc=REGISTER,
    first=st.integers(min_value=0, max_value=2**63 - 1),
    second=st.integers(min_value=0, max_value=2**63 - 1),
)
def test_combining_over_two_lengths_is_combining_over_their_sum(
    path: str, crc: int, first: int, second: int
) -> None:
    step = bytes_doors.combine_for_test(path, crc, 0, first)
    whole = bytes_doors.combine_for_test(path, crc, 0, first + second)
    assert bytes_doors.combine_for_test(path, step, 0, second) == whole


@given(
    crc_a=REGISTER,
    data=st.binary(max_size=500),
    crc_b=REGISTER,
    len_b=st.integers(min_value=0, max_value=3000),
)
def test_the_c_contract_agrees_with_the_oracle(
    crc_a: int, data: bytes, crc_b: int, len_b: int
) -> None:
    updated, combined = bytes_doors.contract_for_test(crc_a, data, crc_b, len_b)
    assert updated == oracle.checksum(data, crc_a)
    assert combined == oracle.combine(crc_a, crc_b, len_b)
