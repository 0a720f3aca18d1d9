"""CRC-32C: known answers on every path, the choice of the path, and buffers that do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import checkout
from fastprod._core.bytes import crc32c
from fastprod._core.testing import bytes_doors

PATHS = crc32c.backends()

# Nine digits is the check value of the CRC catalogues; the rest are the vectors of RFC 3720 P-B.4.
KNOWN = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]

# Bytes 21..end of the record batches in contract P-E.8 and P-E.9, and the CRC each carries.
BATCHES = [
    (
        "0000000000020000018bcfe568000000018bcfe56801ffffffffffffffffffffffffffff0000000324000000"
        "0a6b65792d310e76616c75652d31002200020201047632040468310278046832010c000904000000",
        0x3EE19465,
    ),
    (
        "0010000000010000018bcfe568000000018bcfe568640000000000000fa000077fffffff0000000214000000"
        "046b30047630002400c80102046b3101020a7472616365040001",
        0x848B9D84,
    ),
]


def import_with(forced: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FASTPROD_CRC32C": forced, "PYTHONPATH": str(checkout.ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("data", "crc"), KNOWN)
def test_every_path_gives_the_published_values(path: str, data: bytes, crc: int) -> None:
    assert bytes_doors.update_for_test(path, 0, data) == crc


@pytest.mark.parametrize(("data", "crc"), KNOWN)
def test_checksum_gives_the_published_values(data: bytes, crc: int) -> None:
    assert crc32c.checksum(data) == crc


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("batch", "crc"), BATCHES)
def test_every_path_gives_the_crc_in_a_record_batch(path: str, batch: str, crc: int) -> None:
    """Contract P-E.8, P-E.9: byte-exact batches of other clients."""
    assert bytes_doors.update_for_test(path, 0, bytes.fromhex(batch)) == crc


def test_the_fastest_path_comes_first_and_the_table_is_always_there() -> None:
    assert PATHS[-1] == "table"
    assert len(set(PATHS)) == len(PATHS)
    assert set(PATHS) <= {"sse4.2+pclmul", "sse4.2", "armv8+pmull", "armv8", "table"}


def test_the_paths_are_those_the_processor_has() -> None:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        assert len(PATHS) > 1, "every Mac that can run this has CRC instructions"
        return
    words = set(cpuinfo.read_text().split())
    expected = ["table"]
    for step, step_name, multiply, both_names in (
        ("sse4_2", "sse4.2", "pclmulqdq", "sse4.2+pclmul"),
        ("crc32", "armv8", "pmull", "armv8+pmull"),
    ):
        if step in words:
            expected.insert(0, step_name)
            if multiply in words:
                expected.insert(0, both_names)
    assert list(PATHS) == expected


@pytest.mark.parametrize("path", PATHS)
def test_the_environment_forces_a_path(path: str) -> None:
    code = (
        "from fastprod._core.bytes import crc32c as c; print(c.backend(), c.checksum(b'123456789'))"
    )
    done = import_with(path, code)
    assert done.stderr == ""
    assert done.stdout.split() == [path, str(0xE3069283)]


def test_an_empty_choice_takes_the_fastest_path() -> None:
    done = import_with("", "from fastprod._core.bytes import crc32c as c; print(c.backend())")
    assert done.stderr == ""
    assert done.stdout.split() == [PATHS[0]]


def test_an_unknown_choice_stops_the_import_and_lists_the_usable_paths() -> None:
    done = import_with("avx9", "import fastprod._core.bytes.crc32c")
    assert done.returncode != 0
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ValueError: FASTPROD_CRC32C='avx9'")
    for path in PATHS:
        assert path in message


def test_a_door_refuses_a_path_this_machine_has_not() -> None:
    with pytest.raises(ValueError, match="no CRC-32C path named 'vax'"):
        bytes_doors.update_for_test("vax", 0, b"")
    with pytest.raises(ValueError, match="no CRC-32C path named 'vax'"):
        bytes_doors.combine_for_test("vax", 0, 0, 0)


@pytest.mark.parametrize("n_bytes", [9, (1 << 15) - 1, 1 << 15])
def test_any_contiguous_buffer_is_read_in_place(n_bytes: int) -> None:
    data = bytes(i * 7 & 0xFF for i in range(n_bytes))
    crc = bytes_doors.update_for_test("table", 0, data)
    assert crc32c.checksum(bytearray(data)) == crc
    assert crc32c.checksum(memoryview(data)) == crc
    assert crc32c.checksum(memoryview(b"x" + data + b"y")[1:-1]) == crc


def test_a_buffer_is_given_back() -> None:
    data = bytearray(1 << 16)
    crc32c.checksum(data)
    bytes_doors.update_for_test("table", 0, data)
    bytes_doors.contract_for_test(0, data, 0, 0)
    data.append(1)
    assert len(data) == (1 << 16) + 1


def test_text_and_strided_buffers_are_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        crc32c.checksum("text")  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="contiguous"):
        crc32c.checksum(memoryview(b"abcdef")[::2])


@pytest.mark.parametrize("path", PATHS)
def test_combining_with_nothing_changes_nothing(path: str) -> None:
    assert bytes_doors.combine_for_test(path, 0xE3069283, 0, 0) == 0xE3069283
    assert bytes_doors.combine_for_test(path, 0, 0xE3069283, 9) == 0xE3069283


@pytest.mark.parametrize("path", PATHS)
def test_combining_over_the_whole_period_is_the_identity(path: str) -> None:
    """x has order 2**31 - 1 modulo P, so that many bytes of zeros return a register to itself."""
    period = 2**31 - 1
    for len_b in (period, 2 * period, 2**33 * period - 5 * period):
        assert bytes_doors.combine_for_test(path, 0xDEADBEEF, 0, len_b) == 0xDEADBEEF
    assert bytes_doors.combine_for_test(path, 0xDEADBEEF, 0, period - 1) != 0xDEADBEEF
