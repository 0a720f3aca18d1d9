"""ci/engine_modules.py knows which modules a changed file goes into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine_modules import CORE, EngineModules

TEXTS = {
    "low.pxd": 'cdef extern from "c/fp_low.h" nogil:\n    int low()\n',
    "low.pyx": "from libc.stdint cimport int32_t\n",
    "middle.pxd": "from fastprod._core.low cimport low\n",
    "middle.pyx": "from fastprod._core.low cimport (\n    low,\n)\n",
    "high.pyx": "from fastprod._core cimport middle\n",
    "alone.pyx": "import os\n",
    "c/fp_low.h": '#include "fp_bits.h"\n',
    "c/fp_bits.h": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with four modules, all of them built."""
    core = tmp_path / CORE
    (core / "c").mkdir(parents=True)
    for name, text in TEXTS.items():
        (core / name).write_text(text)
        os.utime(core / name, (100, 100))
    for module in ("low", "middle", "high", "alone"):
        (core / f"{module}.cpython.so").write_text("")
        os.utime(core / f"{module}.cpython.so", (200, 200))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("c/fp_bits.h", {"low", "middle", "high"}),
        ("c/fp_low.h", {"low", "middle", "high"}),
        ("low.pxd", {"low", "middle", "high"}),
        ("low.pyx", {"low"}),
        ("middle.pxd", {"middle", "high"}),
        ("alone.pyx", {"alone"}),
        ("none.pyx", set()),
    ],
)
def test_a_changed_file_goes_into_whoever_cimports_it(
    root: Path, source: str, modules: set[str]
) -> None:
    assert EngineModules(root).made_of(f"{CORE}/{source}") == modules


def test_modules_older_than_a_source_or_not_built_are_stale(root: Path) -> None:
    assert EngineModules(root).stale() == set()
    os.utime(root / CORE / "middle.pxd", (300, 300))
    (root / CORE / "alone.cpython.so").unlink()
    assert EngineModules(root).stale() == {"middle", "high", "alone"}
    assert EngineModules(root).built("alone") is None


def test_the_engine_itself_is_understood() -> None:
    modules = EngineModules(Path(__file__).parents[3])
    assert modules.made_of(f"{CORE}/c/fp_crc32c.h") == {"crc32c"}
    assert modules.made_of(f"{CORE}/varint.pxd") >= {"record_batch", "produce_frame", "varint"}
    assert modules.made_of(f"{CORE}/sender.pyx") == {"sender"}
