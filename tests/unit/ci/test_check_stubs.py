"""ci/check_stubs.py finds a stub that lies; stubtest itself does the comparing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import check_stubs
import checkout

STEM = "crc32c"
SOURCE = next((checkout.ROOT / "fastprod" / "_core").rglob(f"{STEM}.pyx"))
MODULE = ".".join(SOURCE.relative_to(checkout.ROOT).with_suffix("").parts)


def copy_of(root: Path, stub: str | None) -> Path:
    """A checkout with one module of this one: source, compiled, and the given stub."""
    folder = (root / SOURCE.relative_to(checkout.ROOT)).parent
    folder.mkdir(parents=True)
    for path in (SOURCE, *SOURCE.parent.glob(f"{STEM}.*.so")):
        shutil.copy(path, folder)
    # A package of its own, so that it is found before the one that `make dev` has linked.
    while folder != root:
        (folder / "__init__.py").write_text("")
        folder = folder.parent
    # Every module of the engine takes Cython's own code from there.
    for path in (checkout.ROOT / "fastprod" / "_core").glob("cython_shared.*.so"):
        shutil.copy(path, root / "fastprod" / "_core")
    shutil.copy(checkout.ROOT / "pyproject.toml", root)
    if stub is not None:
        (root / SOURCE.relative_to(checkout.ROOT)).with_suffix(".pyi").write_text(stub)
    return root


@pytest.mark.slow
def test_the_true_stub_passes(tmp_path: Path) -> None:
    stub = SOURCE.with_suffix(".pyi").read_text()
    assert check_stubs.check(copy_of(tmp_path, stub)) == []


def test_a_name_that_the_module_does_not_have_is_found(tmp_path: Path) -> None:
    true_stub = SOURCE.with_suffix(".pyi").read_text()
    root = copy_of(tmp_path, true_stub + "\ndef invented(x: int) -> int: ...\n")
    assert any("invented" in fault for fault in check_stubs.check(root))


def test_a_module_without_a_stub_is_found(tmp_path: Path) -> None:
    (fault,) = check_stubs.check(copy_of(tmp_path, None))
    assert fault.startswith(f"{MODULE}: no .pyi, but Python sees")


@pytest.mark.slow
def test_a_module_that_is_not_built_is_found(tmp_path: Path) -> None:
    root = copy_of(tmp_path, "")
    (root / "fastprod" / "_core" / "never_built.pyx").write_text("")
    assert any("never_built" in f and "make dev" in f for f in check_stubs.check(root))
