"""Decompression of what other writers make, and of what nobody should (contract P-E.6; P-L.187)."""

from __future__ import annotations

import gzip

import pytest
import snappy  # type: ignore[import-untyped]

from fastprod._core.testing import codec_doors
from support.oracle.codec_packages import WRITERS, unxerial, zstd_without_size
from support.records.known_payloads import KIB, NOISE, TEXT


@pytest.mark.parametrize("packed", ["28b52ffd005829000068656c6c6f", "28b52ffd200529000068656c6c6f"])
def test_zstd_vectors_of_the_contract_are_read(packed: str) -> None:
    assert codec_doors.decompress_for_test("zstd", bytes.fromhex(packed)) == b"hello"


@pytest.mark.parametrize("data", [TEXT, NOISE, b"hello" * 100], ids=["text", "noise", "small"])
@pytest.mark.parametrize("writer", WRITERS)
def test_we_read_what_foreign_writers_write(writer: str, data: bytes) -> None:
    codec, write = WRITERS[writer]
    assert codec_doors.decompress_for_test(codec, write(data)) == data


@pytest.mark.parametrize("writer", [name for name in WRITERS if "two" not in name])
def test_every_truncation_is_refused(writer: str) -> None:
    """P-L.187."""
    codec, write = WRITERS[writer]
    packed = write(TEXT[:600])
    # Whole members, frames or blocks may follow each other: those prefixes are sound.
    sound = {
        "gzip, three members": [len(gzip.compress(TEXT[:100])), len(packed) - 20],
        "zstd, frames and a skippable one": [
            len(zstd_without_size(TEXT[:100])) + more for more in (0, 11)
        ],
        "snappy, kafka-python": [16],
    }.get(writer, [])
    for size in range(len(packed)):
        if size not in sound:
            with pytest.raises(ValueError, match="corrupt"):
                codec_doors.decompress_for_test(codec, packed[:size])


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("lz4", "04224d1960408200000000"),  # magic
        ("lz4", "04224d1860408300000000"),  # header checksum
        ("lz4", "04224d18a0408200000000"),  # version 10
        ("lz4", "04224d186040"),  # truncated header
        ("lz4", "04224d1860408201000100"),  # block of 65537 bytes in a 64 KiB frame
        ("lz4", "04224d186040820500008068656c"),  # stored block cut short
        ("gzip", "1f8b08e000000000000303000000000000000000"),  # reserved flags
        ("gzip", "1f8b070000000000000303000000000000000000"),  # method
        ("gzip", "1f8b080000000000000303000100000000000000"),  # CRC
        ("gzip", "1f8b080000000000000303000000000000000000aa"),  # garbage after it
        ("zstd", "28b52ffe200529000068656c6c6f"),  # magic
        ("zstd", "28b52ffd200629000068656c6c6f"),  # content size
        ("zstd", "28b52ffd280529000068656c6c6f"),  # reserved bit
        ("snappy", "82534e415050590000000001000000017fffffff0f38"),  # block size
        ("snappy", "82534e41505059000000000100000001000000"),  # no block size
        ("snappy", "82534e4150505900000000010000000100000000"),  # block without a length
        ("snappy", "050168"),  # copy before the first byte
        ("snappy", "0500610d05"),  # copy from before the start
        ("snappy", "0500610100"),  # copy of offset 0
        ("snappy", "051068656c6c"),  # literal longer than the input
        ("snappy", "041068656c6c6f"),  # literal longer than the block
        ("snappy", "061068656c6c6f"),  # too little data
        ("snappy", "ffffffffff7f00"),  # length above 32 bits
        ("snappy", "8080808080"),  # length without an end
        ("snappy", "05ff01000000"),  # 4-byte offset past the start
        ("snappy", "05fcffffffff"),  # literal of 4 GiB
    ],
)
def test_broken_input_is_refused(codec: str, packed: str) -> None:
    """P-E.6, P-L.187 Lz4CompressionTest: magic, header checksum, block size, truncated header."""
    with pytest.raises(ValueError, match="corrupt"):
        codec_doors.decompress_for_test(codec, bytes.fromhex(packed))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_nothing_is_not_a_frame(codec: str) -> None:
    with pytest.raises(ValueError, match="corrupt"):
        codec_doors.decompress_for_test(codec, b"")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1_000_000])
def test_the_limit_is_exact_and_stops_bombs(codec: str, size: int) -> None:
    packed = codec_doors.compress_for_test(codec, 3, [bytes(size)])
    assert codec_doors.decompress_for_test(codec, packed, size) == bytes(size)
    for limit in (size - 1, size // 2, 0):
        with pytest.raises(ValueError, match="limit"):
            codec_doors.decompress_for_test(codec, packed, limit)


def test_a_snappy_length_that_the_bytes_cannot_reach_allocates_nothing() -> None:
    claim = bytes.fromhex("ffffffff0f") + b"\x00a"
    with pytest.raises(ValueError, match="corrupt"):
        codec_doors.decompress_for_test("snappy", claim, 2**40)


@pytest.mark.parametrize("size", [1, 61, 62, 256, 257, 258, 32 * KIB])
def test_snappy_literals_of_every_length_form_come_back(size: int) -> None:
    data = NOISE[:size]
    packed = codec_doors.compress_for_test("snappy", 0, [data])
    assert unxerial(packed) == data
    assert codec_doors.decompress_for_test("snappy", packed) == data


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 2047, 2048, 2049])
@pytest.mark.parametrize("size", [20, 76, 90, 140, 5000])
def test_snappy_copies_of_every_period_come_back(period: int, size: int) -> None:
    data = (NOISE[:period] * (size // period + 2))[: period + size]
    packed = codec_doors.compress_for_test("snappy", 0, [data])
    assert unxerial(packed) == data
    assert codec_doors.decompress_for_test("snappy", packed) == data


def test_snappy_elements_that_our_writer_does_not_use_are_read() -> None:
    # A literal with a 4-byte length, and a copy with a 4-byte offset.
    raw = bytes.fromhex("0cfc03000000616263641f04000000")
    assert codec_doors.decompress_for_test("snappy", raw) == b"abcd" * 3
    assert snappy.decompress(raw) == b"abcd" * 3
