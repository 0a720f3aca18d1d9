"""Compression of arbitrary bytes cut anywhere, and decompression of damaged ones (P-E.6)."""

from __future__ import annotations

import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.testing import codec_doors
from support.oracle import snappy_block
from support.oracle.codec_packages import READERS, xerial_blocks

LEVELS = [
    *(("gzip", level) for level in (-1, 1, 9)),
    ("snappy", 0),
    *(("lz4", level) for level in (9, 4)),
    *(("zstd", level) for level in (3, -7, 12)),
    ("none", 0),
]
CODECS = ["gzip", "snappy", "lz4", "zstd"]
LIMIT = 1 << 20
# A busy machine is no fault of the codecs.


def repeated(piece: bytes, times: int, tail: bytes) -> bytes:
    return piece * times + tail


# Raw bytes do not compress; repeated pieces do, at every distance and length.
PIECES = st.one_of(
    st.binary(max_size=300),
    st.builds(repeated, st.binary(min_size=1, max_size=40), st.integers(0, 4000), st.binary()),
)
DATA = st.lists(PIECES, max_size=6).map(b"".join)
CUTS = st.lists(st.floats(min_value=0, max_value=1), max_size=8)


def cut_at(data: bytes, places: list[float]) -> list[bytes]:
    edges = [0, *sorted(int(place * len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(what=st.sampled_from(LEVELS), data=DATA, places=CUTS)
def test_any_bytes_cut_anywhere_come_back(
    what: tuple[str, int], data: bytes, places: list[float]
) -> None:
    codec, level = what
    spans = cut_at(data, places)
    packed = codec_doors.compress_for_test(codec, level, spans)
    assert len(packed) <= codec_doors.bound_for_test(codec, level, len(data))
    assert READERS[codec](packed) == data
    assert codec_doors.decompress_for_test(codec, packed, len(data)) == data


@given(what=st.sampled_from(LEVELS), data=DATA, places=CUTS, room=st.floats(0, 1))
def test_any_capacity_is_kept_to(
    what: tuple[str, int], data: bytes, places: list[float], room: float
) -> None:
    codec, level = what
    spans = cut_at(data, places)
    capacity = int(room * codec_doors.bound_for_test(codec, level, len(data)))
    small, whole = codec_doors.compress_many_for_test(
        codec, level, [spans, spans], [capacity, None]
    )
    assert whole is not None
    assert (
        small == whole
        if small is not None
        else capacity < codec_doors.bound_for_test(codec, level, len(data))
    )


@st.composite
def damaged(draw: st.DrawFn, packed: bytes) -> bytes:
    """Some bytes changed, a stretch dropped or doubled, or the end cut off."""
    data = bytearray(packed)
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    a, b = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
    shape = draw(st.sampled_from(["as it is", "dropped", "doubled", "cut off"]))
    if shape == "dropped":
        del data[a:b]
    elif shape == "doubled":
        data[b:b] = data[a:b]
    elif shape == "cut off":
        del data[b:]
    return bytes(data)


def outcome(codec: str, packed: bytes, limit: int = LIMIT) -> bytes | None:
    """The decompressed bytes; None for a clean refusal. Anything else fails the test."""
    try:
        return codec_doors.decompress_for_test(codec, packed, limit)
    except ValueError as error:
        assert str(error) in ("the bytes are corrupt", "the request is larger than the limit")  # noqa: PT017
        return None


@given(data=st.data(), codec=st.sampled_from(CODECS), plain=DATA)
def test_damaged_blobs_are_refused_or_read_within_the_limit(
    data: st.DataObject, codec: str, plain: bytes
) -> None:
    packed = data.draw(damaged(codec_doors.compress_for_test(codec, 3, [plain])))
    limit = data.draw(st.sampled_from([0, 100, LIMIT]))
    read = outcome(codec, packed, limit)
    assert read is None or len(read) <= limit


@given(codec=st.sampled_from(CODECS), packed=st.binary(max_size=200))
def test_noise_is_refused_or_read_within_the_limit(codec: str, packed: bytes) -> None:
    magic = {"gzip": "1f8b08", "lz4": "04224d18", "zstd": "28b52ffd", "snappy": ""}[codec]
    for blob in (packed, bytes.fromhex(magic) + packed):
        read = outcome(codec, blob)
        assert read is None or len(read) <= LIMIT


@given(data=st.data(), plain=DATA)
def test_gzip_damage_is_noticed_wherever_zlib_notices_it(data: st.DataObject, plain: bytes) -> None:
    packed = data.draw(damaged(codec_doors.compress_for_test("gzip", 3, [plain])))
    reader = zlib.decompressobj(wbits=31)
    try:
        theirs = reader.decompress(packed)
    except zlib.error:
        theirs = None
    if theirs is not None and reader.unused_data:
        return  # several members: zlib's object stops after the first
    assert outcome("gzip", packed) == (theirs if reader.eof else None)


def literal(data: bytes) -> bytes:
    last = len(data) - 1
    return (bytes([last << 2]) if last < 60 else bytes([60 << 2, last])) + data


def copy(kind: int, number: int, offset: int) -> bytes:
    return bytes([kind | number << 2]) + offset.to_bytes({1: 1, 2: 2, 3: 4}[kind], "little")


# Elements of a raw block: literals and copies, sound or not.
ELEMENTS = st.lists(
    st.one_of(
        st.builds(literal, st.binary(min_size=1, max_size=70)),
        st.builds(copy, st.just(1), st.integers(0, 7), st.integers(0, 40)),
        st.builds(copy, st.integers(2, 3), st.integers(0, 63), st.integers(0, 300)),
    ),
    max_size=20,
)


def element_size(element: bytes) -> int:
    kind, n = element[0] & 3, element[0] >> 2
    if kind == 0:
        return len(element) - (1 if n < 60 else 2)
    return 4 + (n & 7) if kind == 1 else 1 + n


@given(
    elements=ELEMENTS,
    first=st.binary(min_size=1, max_size=60),
    off=st.sampled_from([0, 0, 0, 1, -1]),
)
def test_snappy_blocks_are_read_as_the_oracle_reads_them(
    elements: list[bytes], first: bytes, off: int
) -> None:
    elements = [literal(first), *elements]
    raw = snappy_block.uvarint(max(0, sum(map(element_size, elements)) + off)) + b"".join(elements)
    assert outcome("snappy", raw) == snappy_block.decode(raw)


@given(data=st.data(), plain=DATA)
def test_damaged_snappy_blocks_are_read_as_the_oracle_reads_them(
    data: st.DataObject, plain: bytes
) -> None:
    blocks = xerial_blocks(codec_doors.compress_for_test("snappy", 0, [plain[:5000]]))
    for block in blocks[:1]:
        raw = data.draw(damaged(block))
        assert outcome("snappy", raw) == snappy_block.decode(raw)


@pytest.mark.parametrize("size", range(1, 40))
def test_snappy_reads_every_short_block_as_the_oracle(size: int) -> None:
    plain = b"abcabcabcabcabcabcabcabcabcabcabcabcabcabc"[:size]
    (block,) = xerial_blocks(codec_doors.compress_for_test("snappy", 0, [plain]))
    assert snappy_block.decode(block) == plain
    assert codec_doors.decompress_for_test("snappy", block) == plain
