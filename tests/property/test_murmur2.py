"""murmur2 against the oracle of contract P-C.4."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.bytes import murmur2
from fastprod._core.testing import bytes_doors
from support.oracle import murmur2 as oracle

NOISE = random.Random(2).randbytes(2100)


@given(key=st.binary(max_size=400))
def test_hashes_like_the_oracle(key: bytes) -> None:
    assert murmur2.hash_key(key) == oracle.signed(key)


@pytest.mark.parametrize("start", range(4))
def test_every_length_at_every_misalignment(start: int) -> None:
    view = memoryview(NOISE)
    for n in range(301):
        key = view[start : start + n]
        assert murmur2.hash_key(key) == oracle.signed(bytes(key)), n


@given(key=st.binary(max_size=60), cut=st.integers(min_value=0, max_value=60))
def test_the_bytes_around_a_key_do_not_matter(key: bytes, cut: int) -> None:
    around = NOISE[:cut] + key + NOISE[cut : cut + 8]
    assert murmur2.hash_key(memoryview(around)[cut : cut + len(key)]) == oracle.signed(key)


@given(key=st.binary(max_size=60), rounds=st.integers(min_value=0, max_value=5))
def test_rounds_give_the_unsigned_hash_or_nothing(key: bytes, rounds: int) -> None:
    expected = oracle.unsigned(key) if rounds % 2 else 0
    assert bytes_doors.hash_rounds_for_test(key, rounds) == expected
