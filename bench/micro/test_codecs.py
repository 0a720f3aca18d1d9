"""Codecs on JSON lines: one batch over chained slabs, against the packages' own calls."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import lz4.frame  # type: ignore[import-untyped]
import pytest
import snappy  # type: ignore[import-untyped]
import zstandard
from pytest_benchmark.fixture import BenchmarkFixture

from fastprod._core.codec import compressor
from fastprod._core.testing import codec_doors

BATCH_BYTES = 256 * 1024
# As the pool chains them: one small slab, then large ones.
FIRST_SLAB, SLAB = 4 * 1024, 32 * 1024
CASES = [("gzip", -1), ("snappy", 0), ("lz4", 9), ("lz4", 4), ("zstd", 3), ("zstd", 1)]
IDS = [f"{codec}-{level}" for codec, level in CASES]


def json_lines(n_bytes: int) -> bytes:
    choose = random.Random(1)
    lines: list[bytes] = []
    size = 0
    while size < n_bytes:
        line = (
            b'{"id": %d, "user": "user-%d", "event": "%s", "ts": %d, "price": %d.%02d, '
            b'"tags": ["%s", "%s"], "ok": true, "session": "%016x"}'
        ) % (
            len(lines),
            choose.randrange(100_000),
            choose.choice([b"click", b"view", b"purchase", b"scroll"]),
            1_700_000_000_000 + len(lines) * 13,
            choose.randrange(100),
            choose.randrange(100),
            choose.choice([b"alpha", b"beta", b"gamma", b"delta"]),
            choose.choice([b"epsilon", b"zeta", b"eta", b"theta"]),
            choose.getrandbits(64),
        )
        lines.append(line)
        size += len(line)
    return b"".join(lines)[:n_bytes]


DATA = json_lines(BATCH_BYTES)
SPANS = [DATA[:FIRST_SLAB]]
SPANS += [DATA[at : at + SLAB] for at in range(FIRST_SLAB, BATCH_BYTES, SLAB)]


def package(codec: str, level: int) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """The package's own way, compressing and decompressing, with its context kept."""
    if codec == "gzip":
        return (
            lambda data: zlib.compress(data, level, wbits=31),
            lambda data: zlib.decompress(data, wbits=31),
        )
    if codec == "snappy":
        return snappy.compress, snappy.decompress
    if codec == "lz4":
        return (
            lambda data: lz4.frame.compress(
                data,
                compression_level=0 if level == 9 else level,
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            ),
            lz4.frame.decompress,
        )
    writer = zstandard.ZstdCompressor(level=level)
    return writer.compress, zstandard.ZstdDecompressor().decompress


def note(benchmark: BenchmarkFixture, size: int, rounds: int) -> None:
    benchmark.extra_info["bytes"] = BATCH_BYTES * rounds
    benchmark.extra_info["compressed_bytes"] = size


@pytest.mark.benchmark(group="codecs-compress")
@pytest.mark.parametrize(("codec", "level"), CASES, ids=IDS)
@pytest.mark.parametrize("who", ["fastprod", "package"])
def test_compress(benchmark: BenchmarkFixture, who: str, codec: str, level: int) -> None:
    rounds = 4  # one compressor, several batches: its making does not show
    if who == "fastprod":
        packed = benchmark(codec_doors.compress_many_for_test, codec, level, [SPANS] * rounds)
        benchmark.extra_info["library"] = compressor.describe()[codec].split(" in ")[0]
        assert codec_doors.decompress_for_test(codec, packed[0]) == DATA, "the answer is wrong"
    else:
        compress, decompress = package(codec, level)
        packed = benchmark(lambda: [compress(DATA) for _ in range(rounds)])
        assert decompress(packed[0]) == DATA, "the answer is wrong"
    note(benchmark, len(packed[0]), rounds)


@pytest.mark.benchmark(group="codecs-decompress")
@pytest.mark.parametrize(("codec", "level"), CASES, ids=IDS)
@pytest.mark.parametrize("who", ["fastprod", "package"])
def test_decompress(benchmark: BenchmarkFixture, who: str, codec: str, level: int) -> None:
    compress, decompress = package(codec, level)
    packed = compress(DATA)
    if who == "fastprod":
        got = benchmark(codec_doors.decompress_for_test, codec, packed)
    else:
        got = benchmark(decompress, packed)
    assert got == DATA, "the answer is wrong"
    note(benchmark, len(packed), 1)
