"""ci/check_wheel.py refuses a wheel with wrong content and an environment with a compiler."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import check_wheel

GOOD = [
    "fastprod/__init__.py",
    "fastprod/py.typed",
    "fastprod/_core/bytes/crc32c.cpython-311-x86_64-linux-gnu.so",
    "fastprod/_core/bytes/crc32c.pyi",
    "fastprod/spark/sink/data_source.py",
    "pyspark_fastprod.py",
    "fastprod-0.1.0.dist-info/licenses/LICENSE",
]


def wheel(folder: Path, names: list[str], text: str = "") -> Path:
    """A wheel of these files, the last of which has this text; the others are empty."""
    path = folder / "fastprod-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, text if name == names[-1] else "")
    return path


def test_a_wheel_with_the_right_files_passes(tmp_path: Path) -> None:
    assert check_wheel.content_faults(wheel(tmp_path, GOOD)) == []


@pytest.mark.parametrize("missing", GOOD)
def test_a_wheel_that_lacks_a_file_is_refused(tmp_path: Path, missing: str) -> None:
    path = wheel(tmp_path, [name for name in GOOD if name != missing])
    assert len(check_wheel.content_faults(path)) == 1


@pytest.mark.parametrize("source", ["fastprod/_core/bytes/wire.pyx", "fastprod/_core/c/fp_bits.h"])
def test_a_wheel_with_sources_is_refused(tmp_path: Path, source: str) -> None:
    (fault,) = check_wheel.content_faults(wheel(tmp_path, [*GOOD, source]))
    assert fault.endswith(f"has a source: {source}")


@pytest.mark.parametrize("name", ["records_doors.pyi", "__init__.py"])
def test_a_wheel_with_the_doors_of_the_tests_is_refused(tmp_path: Path, name: str) -> None:
    name = f"fastprod/_core/testing/{name}"
    (fault,) = check_wheel.content_faults(wheel(tmp_path, [*GOOD, name]))
    assert fault.endswith(f"has code for tests: {name}")


@pytest.mark.parametrize("text", ["class PoolForTest:", "def text_for_test("])
def test_a_wheel_with_a_door_in_a_module_of_the_engine_is_refused(
    tmp_path: Path, text: str
) -> None:
    name = "fastprod/_core/bytes/buffer_pool.pyi"
    (fault,) = check_wheel.content_faults(wheel(tmp_path, [*GOOD, name], text))
    assert fault.endswith(f"has code for tests: {name}")


def test_an_environment_with_a_compiler_is_refused(tmp_path: Path) -> None:
    compiler = tmp_path / "bin" / "gcc"
    compiler.parent.mkdir()
    compiler.write_text("")
    compiler.chmod(0o755)
    with pytest.raises(RuntimeError, match="gcc"):
        check_wheel.without_compiler(tmp_path)


def test_naming_no_wheel_is_an_error() -> None:
    assert check_wheel.main([]) == 2
