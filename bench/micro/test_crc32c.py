"""CRC-32C: every path of this machine, chained as a batch chains its pieces; and a rival."""

from __future__ import annotations

import crc32c as package
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastprod._core.bytes import crc32c
from fastprod._core.testing import bytes_doors

SIZES = [64, 1 << 10, 1 << 14, 1 << 20]
SIZE_IDS = ["64B", "1KiB", "16KiB", "1MiB"]
# Enough work a call that the call itself does not show.
BYTES_A_CALL = 1 << 20


def sample(n_bytes: int) -> bytes:
    return bytes(i * 131 >> 3 & 0xFF for i in range(n_bytes))


@pytest.mark.benchmark(group="crc32c-kernel")
@pytest.mark.parametrize("n_bytes", SIZES, ids=SIZE_IDS)
@pytest.mark.parametrize("path", crc32c.backends())
def test_kernel(benchmark: BenchmarkFixture, path: str, n_bytes: int) -> None:
    data = sample(n_bytes)
    rounds = BYTES_A_CALL // n_bytes
    benchmark.extra_info["bytes"] = n_bytes * rounds
    benchmark.extra_info["bytes_a_round"] = n_bytes
    benchmark.extra_info["backend"] = path

    got = benchmark(bytes_doors.update_for_test, path, 0, data, rounds)

    assert got == package.crc32c(data * rounds), "the answer is wrong: the time means nothing"


@pytest.mark.benchmark(group="crc32c-python")
@pytest.mark.parametrize("n_bytes", SIZES, ids=SIZE_IDS)
@pytest.mark.parametrize("who", ["fastprod", "crc32c"])
def test_python_call(benchmark: BenchmarkFixture, who: str, n_bytes: int) -> None:
    data = sample(n_bytes)
    benchmark.extra_info["bytes"] = n_bytes
    benchmark.extra_info["backend"] = crc32c.backend() if who == "fastprod" else "package"

    got = benchmark(crc32c.checksum if who == "fastprod" else package.crc32c, data)

    assert got == bytes_doors.update_for_test("table", 0, data), "the answer is wrong"


@pytest.mark.benchmark(group="crc32c-combine")
@pytest.mark.parametrize("path", crc32c.backends())
def test_combine_over_256_kib(benchmark: BenchmarkFixture, path: str) -> None:
    head, records = sample(40), sample((1 << 18) - 101)
    crcs = package.crc32c(head), package.crc32c(records)
    benchmark.extra_info["bytes"] = len(records)
    benchmark.extra_info["backend"] = path

    got = benchmark(bytes_doors.combine_for_test, path, *crcs, len(records))

    assert got == package.crc32c(head + records), "the answer is wrong"
