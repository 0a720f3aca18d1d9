"""The codecs of other packages: readers for what we write, writers for what we read (P-E.6)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import cramjam
import kafka.codec
import lz4.frame  # type: ignore[import-untyped]
import snappy  # type: ignore[import-untyped]
import zstandard


def xerial_blocks(packed: bytes) -> list[bytes]:
    """The raw blocks of one xerial stream (P-E.6)."""
    assert packed[:16] == bytes.fromhex("82534e41505059000000000100000001")
    blocks = []
    at = 16
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        blocks.append(packed[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks


def unxerial(packed: bytes) -> bytes:
    """A xerial stream of 32 KiB blocks, taken apart by hand; python-snappy opens the blocks."""
    parts = [snappy.decompress(block) for block in xerial_blocks(packed)]
    assert all(len(part) == 32 * 1024 for part in parts[:-1])
    return b"".join(parts)


READERS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.decompress,
    "snappy": unxerial,
    "lz4": lz4.frame.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}
SECOND_READERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: bytes(cramjam.gzip.decompress(data)),
    "snappy": kafka.codec.snappy_decode,
    "lz4": lambda data: bytes(cramjam.lz4.decompress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.decompress(data)),
}


def gzip_with_every_flag(data: bytes) -> bytes:
    """A member with FTEXT, FHCRC, FEXTRA, FNAME and FCOMMENT (RFC 1952)."""
    head = b"\x1f\x8b\x08\x1f" + bytes(6) + b"\x04\x00extr" + b"name\x00" + b"comment\x00"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(data) + raw.flush()
    tail = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return head + body + tail


def zstd_without_size(data: bytes) -> bytes:
    writer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return writer.compress(data) + writer.flush()


# What writes, and the codec it writes.
WRITERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip, every flag": ("gzip", gzip_with_every_flag),
    "gzip, three members": (
        "gzip",
        lambda d: gzip.compress(d[:100]) + gzip_with_every_flag(d[100:]) + gzip.compress(b""),
    ),
    "gzip, kafka-python": ("gzip", kafka.codec.gzip_encode),
    "snappy, kafka-python": ("snappy", kafka.codec.snappy_encode),
    "snappy, bare block": ("snappy", snappy.compress),
    "snappy, bare block, cramjam": ("snappy", lambda d: bytes(cramjam.snappy.compress_raw(d))),
    "snappy, two streams": (
        "snappy",
        lambda d: kafka.codec.snappy_encode(d[:100]) + kafka.codec.snappy_encode(d[100:]),
    ),
    "lz4, linked": ("lz4", lambda d: lz4.frame.compress(d, block_linked=True)),
    "lz4, no size, both checksums": (
        "lz4",
        lambda d: lz4.frame.compress(
            d, store_size=False, content_checksum=True, block_checksum=True
        ),
    ),
    **{
        f"lz4, block size {size}": (
            "lz4",
            lambda d, size=size: lz4.frame.compress(d, block_size=size),  # type: ignore[misc]
        )
        for size in (4, 5, 6, 7)
    },
    "lz4, cramjam": ("lz4", lambda d: bytes(cramjam.lz4.compress(d))),
    "lz4, two frames": (
        "lz4",
        lambda d: lz4.frame.compress(d[:100]) + lz4.frame.compress(d[100:]),
    ),
    "zstd": ("zstd", zstandard.ZstdCompressor().compress),
    "zstd, no size, checksum": ("zstd", zstd_without_size),
    "zstd, frames and a skippable one": (
        "zstd",
        lambda d: (
            zstd_without_size(d[:100])
            + bytes.fromhex("502a4d1803000000aabbcc")
            + zstandard.ZstdCompressor().compress(d[100:])
        ),
    ),
    "zstd, largest window": (
        "zstd",
        lambda d: zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(window_log=27)
        ).compress(d),
    ),
}
