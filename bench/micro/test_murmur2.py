"""murmur2: the kernel over usual key lengths, and one call from Python beside a rival.

In the kernel case the hashes of successive keys overlap, as they do in bulk.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2  # type: ignore[import-untyped]
from pytest_benchmark.fixture import BenchmarkFixture

from fastprod._core.bytes import murmur2
from fastprod._core.testing import bytes_doors

KEY = b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"
KERNEL = "portable"
# Odd, so that the XOR of the rounds is the hash.
ROUNDS = 9999
WHO: dict[str, Callable[[bytes], int]] = {
    "fastprod": murmur2.hash_key,
    "aiokafka": aiokafka_murmur2,
}


@pytest.mark.benchmark(group="murmur2-kernel")
@pytest.mark.parametrize("n_bytes", [8, 16, 36, 200])
def test_kernel(benchmark: BenchmarkFixture, n_bytes: int) -> None:
    key = (KEY * 5)[:n_bytes]
    benchmark.extra_info["bytes"] = n_bytes * ROUNDS
    benchmark.extra_info["bytes_a_round"] = n_bytes
    benchmark.extra_info["backend"] = KERNEL

    got = benchmark(bytes_doors.hash_rounds_for_test, key, ROUNDS)

    assert got == aiokafka_murmur2(key) & 0xFFFFFFFF, "the answer is wrong"


@pytest.mark.benchmark(group="murmur2-python")
@pytest.mark.parametrize("who", WHO)
def test_python_call(benchmark: BenchmarkFixture, who: str) -> None:
    benchmark.extra_info["bytes"] = len(KEY)
    benchmark.extra_info["backend"] = KERNEL if who == "fastprod" else who

    got = benchmark(WHO[who], KEY)

    assert got & 0xFFFFFFFF == 0xFC7D49CD, "the answer is wrong (contract P-C.4, row 5)"
