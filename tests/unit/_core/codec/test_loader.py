"""Where the compression functions come from, and what happens where they are not found."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import lz4  # type: ignore[import-untyped]
import pytest
import zstandard

from fastprod._core.codec import compressor, loader
from fastprod._core.testing import codec_doors
from support.oracle.codec_packages import READERS
from support.records.known_payloads import KIB, TEXT, cut


def test_describe_names_library_version_and_file() -> None:
    how = compressor.describe()
    assert how["snappy"] == "built in"
    assert zlib.ZLIB_RUNTIME_VERSION in how["gzip"]
    assert lz4.library_version_string() in how["lz4"]
    assert "_frame" in how["lz4"]
    assert ".".join(map(str, zstandard.ZSTD_VERSION)) in how["zstd"]
    assert all(compressor.available(name) for name in ("none", "gzip", "snappy", "lz4", "zstd"))
    with pytest.raises(KeyError):
        compressor.available("brotli")


@contextmanager
def functions_from(codec: str, path: str | None) -> Iterator[bool]:
    """Take a codec's functions from elsewhere for a while."""
    loaded = codec_doors.load_for_test(codec, path)
    try:
        yield loaded
    finally:
        assert any(codec_doors.load_for_test(codec, p) for p in loader.candidate_files(codec))


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_codec_that_was_not_found_is_refused_by_name(codec: str) -> None:
    packed = codec_doors.compress_for_test(codec, 3, [b"hello"])
    with functions_from(codec, None):
        assert not compressor.available(codec)
        assert compressor.describe()[codec] == "not available"
        with pytest.raises(ValueError, match="codec was not found"):
            codec_doors.compress_for_test(codec, 3, [b"hello"])
        with pytest.raises(ValueError, match="not supported"):
            codec_doors.decompress_for_test(codec, packed)
    assert compressor.available(codec)
    assert codec_doors.decompress_for_test(codec, packed) == b"hello"


@pytest.mark.parametrize(
    ("codec", "path"),
    [(codec, path) for codec in ("gzip", "lz4", "zstd") for path in loader.candidate_files(codec)],
)
def test_every_candidate_works_or_changes_nothing(codec: str, path: str) -> None:
    before = compressor.describe()[codec]
    with functions_from(codec, path) as loaded:
        assert (path and path in compressor.describe()[codec]) or before == compressor.describe()[
            codec
        ]
        assert loaded or before == compressor.describe()[codec]
        packed = codec_doors.compress_for_test(codec, 3, cut(TEXT, 32 * KIB))
        assert READERS[codec](packed) == TEXT
        assert codec_doors.decompress_for_test(codec, packed) == TEXT


def test_a_file_without_the_functions_is_refused() -> None:
    assert not codec_doors.load_for_test("zstd", loader.candidate_files("lz4")[0])
    assert not codec_doors.load_for_test("lz4", "/nowhere/at/all.so")
    assert compressor.available("zstd")
    assert compressor.available("lz4")


def test_the_packages_are_mapped_and_not_imported() -> None:
    program = (
        "import sys, fastprod._core.codec.compressor as c;"
        "assert all(map(c.available, ['gzip', 'lz4', 'zstd']));"
        "print([m for m in sys.modules if m.split('.')[0] in ('lz4', 'zstandard', 'zlib')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
