"""A built wheel works for somebody who has no compiler and no checkout.

`ci/check_wheel.py WHEEL...`: looks into each wheel, installs it with its dependencies in a new
empty environment whose PATH has no compiler, and imports it from an empty folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import checkout

# 2.7 MB today: 2.0 MB compiled, of which symbols for debuggers are 0.2 MB, and 0.6 MB of Python.
SIZE_LIMIT_BYTES = 3_000_000
WANTED = (
    "fastprod/__init__.py",
    "fastprod/py.typed",
    "fastprod/_core/bytes/crc32c.pyi",
    "fastprod/spark/sink/data_source.py",
    "pyspark_fastprod.py",
)
SOURCES = (".pyx", ".pxd", ".c", ".h")
# Where the doors of the tests are, and how they are named.
TEST_FOLDERS = ("fastprod/_core/testing/", "tests/")
TEST_NAMES = re.compile(rb"[Ff]or_?[Tt]est\b")
COMPILERS = ("cc", "gcc", "clang", "c99", "g++")
INSTALL_TIMEOUT_S = 600
IMPORT_TIMEOUT_S = 60

# Run by the new environment's Python, from an empty folder, with -I.
_PROBE = """
import importlib, pkgutil, platform, subprocess, sys
import fastprod, fastprod._core
assert fastprod.__file__.startswith(sys.prefix), fastprod.__file__
found = pkgutil.walk_packages(fastprod._core.__path__, "fastprod._core.")
names = [each.name for each in found if not each.ispkg]
for name in names:
    importlib.import_module(name)
from fastprod._core.bytes import crc32c
backend = crc32c.backend()
slow = backend == "table" and platform.machine() in ("x86_64", "aarch64", "arm64")
assert not slow, "the CRC-32C kernel is the table: run-time detection of the CPU failed"
command = [sys.executable, "-I", "-m", "fastprod", "--version"]
told = subprocess.run(command, capture_output=True, text=True, timeout=30)
assert told.returncode == 2 and "fastprod[cli]" in told.stderr, told
print(f"{len(names)} compiled modules, CRC-32C by {backend}")
"""


def content_faults(wheel: Path) -> list[str]:
    """What is wrong with the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        test_code = sorted(name for name in names if _is_test_code(archive, name))
    faults = [f"{wheel.name}: has a source: {name}" for name in names if name.endswith(SOURCES)]
    faults += [f"{wheel.name}: has code for tests: {name}" for name in test_code]
    if not any(name.endswith(".so") for name in names):
        faults.append(f"{wheel.name}: has no compiled module")
    faults += [f"{wheel.name}: lacks {wanted}" for wanted in WANTED if wanted not in names]
    if not any(name.endswith("/LICENSE") for name in names):
        faults.append(f"{wheel.name}: lacks the licence")
    size = wheel.stat().st_size
    if size > SIZE_LIMIT_BYTES:
        faults.append(f"{wheel.name}: {size} bytes, the limit is {SIZE_LIMIT_BYTES}")
    return faults


def _is_test_code(archive: zipfile.ZipFile, name: str) -> bool:
    if name.startswith(TEST_FOLDERS):
        return True
    return name.startswith("fastprod/_core/") and TEST_NAMES.search(archive.read(name)) is not None


def without_compiler(environment: Path) -> dict[str, str]:
    """This process's variables, with only the new environment on PATH."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    kept["PATH"] = str(environment / "bin")
    found = [name for name in COMPILERS if shutil.which(name, path=kept["PATH"])]
    if found:
        raise RuntimeError(f"the empty environment has compilers: {', '.join(found)}")
    return kept


def install_and_import(wheel: Path, folder: Path) -> str:
    """Install into a new environment in `folder`; return what the probe printed.

    Raises: subprocess.CalledProcessError when pip or the import failed.
    """
    environment = folder / "environment"
    empty = folder / "empty"
    empty.mkdir()
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    variables = without_compiler(environment)
    subprocess.run(
        [
            *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--only-binary", ":all:", str(wheel.resolve())),
        ],
        env=variables,
        cwd=empty,
        timeout=INSTALL_TIMEOUT_S,
        check=True,
    )
    probe = subprocess.run(
        [python, "-I", "-c", _PROBE],
        env=variables,
        cwd=empty,
        timeout=IMPORT_TIMEOUT_S,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return probe.stdout.strip()


def check(wheel: Path) -> list[str]:
    """All faults of one wheel; the import is tried only when its content is right."""
    if faults := content_faults(wheel):
        return faults
    with tempfile.TemporaryDirectory(prefix="fastprod-wheel-") as folder:
        try:
            said = install_and_import(wheel, Path(folder))
        except subprocess.CalledProcessError as error:
            return [f"{wheel.name}: {error}"]
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {said}")
    return []


def main(arguments: list[str]) -> int:
    """Check each wheel that is named; naming none is an error."""
    if not arguments:
        print("ci/check_wheel.py: name the wheels to check", file=sys.stderr)
        return 2
    return checkout.conclude("wheel", [fault for each in arguments for fault in check(Path(each))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
