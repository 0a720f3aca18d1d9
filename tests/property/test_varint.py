"""Varints against the divmod oracle (contract P-E.3.1, P-E.3.3)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastprod._core.testing import bytes_doors
from support.oracle import varint as oracle

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
UINT64 = st.integers(min_value=0, max_value=2**64 - 1)
MAX_BYTES = st.sampled_from([5, 10])
# Bytes as a varint has them: mostly with the continuation bit, so that long runs are common.
GROUPS = st.lists(
    st.one_of(st.integers(min_value=128, max_value=255), st.integers(min_value=0, max_value=255)),
    max_size=12,
).map(bytes)
UNSIGNED_EDGES = [2 ** (7 * k) + d for k in range(1, 10) for d in (-1, 0, 1)]
EDGES = [sign * 2 ** (7 * k - 1) + d for k in range(1, 10) for sign in (1, -1) for d in (-1, 0, 1)]


@given(value=INT64)
@example(value=-(2**63))
@example(value=2**63 - 1)
def test_zigzag_encodes_like_the_oracle_and_comes_back(value: int) -> None:
    data = bytes_doors.varint_encode_for_test(value)
    assert data == oracle.encode(value)
    assert bytes_doors.varint_size_for_test(value) == len(data)
    assert bytes_doors.varint_decode_for_test(data, 10) == (value, len(data))


@given(value=UINT64)
@example(value=0)
@example(value=2**64 - 1)
def test_unsigned_encodes_like_the_oracle_and_comes_back(value: int) -> None:
    data = bytes_doors.uvarint_encode_for_test(value)
    assert data == oracle.encode_unsigned(value)
    assert bytes_doors.uvarint_size_for_test(value) == len(data)
    assert bytes_doors.uvarint_decode_for_test(data, 10) == (value, len(data))


@pytest.mark.parametrize("value", EDGES)
def test_zigzag_width_edges(value: int) -> None:
    assert bytes_doors.varint_encode_for_test(value) == oracle.encode(value)
    assert bytes_doors.varint_size_for_test(value) == len(oracle.encode(value))


@pytest.mark.parametrize("value", UNSIGNED_EDGES)
def test_unsigned_width_edges(value: int) -> None:
    assert bytes_doors.uvarint_encode_for_test(value) == oracle.encode_unsigned(value)
    assert bytes_doors.uvarint_size_for_test(value) == len(oracle.encode_unsigned(value))


@given(data=GROUPS, max_bytes=MAX_BYTES)
def test_any_bytes_decode_like_the_oracle(data: bytes, max_bytes: int) -> None:
    """P-E.3.1: the same bytes are taken and the same are refused."""
    unsigned = oracle.decode_unsigned(data, max_bytes)
    assert bytes_doors.uvarint_decode_for_test(data, max_bytes) == unsigned
    assert bytes_doors.varint_decode_for_test(data, max_bytes) == oracle.decode(data, max_bytes)


@given(value=INT64, rest=st.binary(max_size=5))
def test_every_proper_prefix_is_refused_and_the_rest_is_left(value: int, rest: bytes) -> None:
    """P-E.3.1."""
    data = bytes_doors.varint_encode_for_test(value)
    for end in range(len(data)):
        assert bytes_doors.varint_decode_for_test(data[:end], 10) is None
    assert bytes_doors.varint_decode_for_test(data + rest, 10) == (value, len(data))
