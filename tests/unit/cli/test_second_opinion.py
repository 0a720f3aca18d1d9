"""fastprod.cli.second_opinion: two implementations of CRC-32C on the same samples."""

from __future__ import annotations

from collections.abc import Callable

import crc32c as package
import pytest

from fastprod._core.bytes import crc32c
from fastprod.cli.second_opinion import SAMPLE_COUNT, crc32c_difference
from unit.cli.conftest import Run


def test_they_agree_on_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(data: memoryview) -> int:
        sizes.append(len(data))
        return crc32c.checksum(data)

    monkeypatch.setattr(package, "crc32c", counted)
    assert crc32c_difference() is None
    assert len(sizes) == SAMPLE_COUNT > 150
    assert max(sizes) > 100_000


def wrong_from(size: int) -> Callable[[memoryview], int]:
    right = package.crc32c
    return lambda data: right(data) ^ (len(data) >= size)


def test_the_first_sample_on_which_they_differ_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "crc32c", wrong_from(1000))
    told = crc32c_difference()
    assert told is not None
    assert f"by {crc32c.backend()}, but " in told
    assert told.endswith(" by the package crc32c, of 1,023 bytes")


def test_doctor_tells_that_they_agree(run: Run) -> None:
    result = run("doctor")
    assert result.exit_code == 0
    assert f"the same by the package crc32c, of {SAMPLE_COUNT} samples" in result.stdout


def test_doctor_ends_with_code_1_when_they_differ(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "crc32c", wrong_from(0))
    result = run("doctor")
    assert result.exit_code == 1
    assert "of 0 bytes" in result.stdout
    assert result.stderr.startswith("fastprod doctor: the CRC-32C of this engine is not to be ")
