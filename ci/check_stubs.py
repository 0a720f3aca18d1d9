"""The .pyi of each compiled module says what the module really offers (mypy's stubtest)."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

import checkout

# Cython adds the first two to every module; the signature of a __cinit__ is lost at run time.
ALLOWED = r"""fastprod\._core\.[\w.]+\.__pyx_capi__
fastprod\._core\.[\w.]+\.__test__
fastprod\._core\.[\w.]+\.\w+\.__init__
"""


def visible_names(module: object) -> list[str]:
    """The public names of a compiled module."""
    return [name for name in vars(module) if not name.startswith("_")]


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`, whose modules must be built in place."""
    faults, stubbed = [], []
    for source in sorted((root / "fastprod" / "_core").rglob("*.pyx")):
        name = ".".join(source.relative_to(root).with_suffix("").parts)
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            faults.append(f"{name}: {error}; build it first: make dev")
            continue
        if source.with_suffix(".pyi").exists():
            stubbed.append(name)
        elif shown := visible_names(module):
            faults.append(f"{name}: no .pyi, but Python sees {', '.join(shown)}")
    if stubbed:
        faults += _stubtest(root, stubbed)
    return faults


def _stubtest(root: Path, modules: list[str]) -> list[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as allowed:
        allowed.write(ALLOWED)
        allowed.flush()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-disjoint-bases"),
                *("--allowlist", allowed.name, "--ignore-unused-allowlist"),
                *("--mypy-config-file", str(root / "pyproject.toml"), *modules),
            ],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    return [] if done.returncode == 0 else [*done.stdout.splitlines(), *done.stderr.splitlines()]


if __name__ == "__main__":
    sys.path.insert(0, str(checkout.ROOT))
    sys.exit(checkout.conclude("stubs", check(checkout.ROOT)))
