"""ci/engine_modules.py knows which modules a changed file goes into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import checkout
from engine_modules import CORE, EngineModules, module_name

TEXTS = {
    "bytes/low.pxd": 'cdef extern from "c/fp_low.h" nogil:\n    int low()\n',
    "bytes/low.pyx": "from libc.stdint cimport int32_t\n",
    "middle.pxd": "from fastprod._core.bytes.low cimport low\n",
    "middle.pyx": "from fastprod._core.bytes.low cimport (\n    low,\n)\n",
    "high.pyx": "from fastprod._core cimport middle\n",
    "highest.pyx": "from fastprod._core.bytes cimport low\n",
    "alone.pyx": "import os\n",
    "c/fp_low.h": '#include "fp_bits.h"\n',
    "c/fp_bits.h": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with five modules, all of them built."""
    core = tmp_path / CORE
    for folder in ("c", "bytes"):
        (core / folder).mkdir(parents=True)
    for name, text in TEXTS.items():
        (core / name).write_text(text)
        os.utime(core / name, (100, 100))
    for module in ("bytes/low", "middle", "high", "highest", "alone"):
        (core / f"{module}.cpython.so").write_text("")
        os.utime(core / f"{module}.cpython.so", (200, 200))
    return tmp_path


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("c/fp_bits.h", {"bytes.low", "middle", "high", "highest"}),
        ("c/fp_low.h", {"bytes.low", "middle", "high", "highest"}),
        ("bytes/low.pxd", {"bytes.low", "middle", "high", "highest"}),
        ("bytes/low.pyx", {"bytes.low"}),
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
    modules = EngineModules(checkout.ROOT)
    batch, frame = (
        module_name(checkout.ROOT / CORE, checkout.ROOT / path)
        for path in (
            "fastprod/_core/records/record_batch.pyx",
            "fastprod/_core/engine/produce_codec.pyx",
        )
    )
    assert len(modules.made_of(f"{CORE}/c/fp_crc32c.h")) == 1
    assert modules.made_of("fastprod/_core/bytes/varint.pxd") >= {batch, frame}
    assert modules.made_of("fastprod/_core/records/record_batch.pyx") == {batch}
