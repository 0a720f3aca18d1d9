"""Which extension modules of the engine a source file goes into, and which are out of date."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

import source_imports

CORE = "fastprod/_core"
_PACKAGE = "fastprod._core"
_C_HEADER = re.compile(r'^\s*(?:#\s*include|cdef extern from)\s+"((?:c/)?fp_\w+\.h)"', re.MULTILINE)


class EngineModules:
    """The sources of each module: its own, the .pxd files it cimports, their C headers.

    Args:
        root: the checkout.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._core = root / CORE

    @cached_property
    def sources(self) -> dict[str, frozenset[str]]:
        """Module name to the files it is made of, relative to the checkout."""
        return {
            path.stem: frozenset(self._closure(path)) for path in sorted(self._core.glob("*.pyx"))
        }

    def _closure(self, module: Path) -> set[str]:
        found: set[str] = set()
        due = [module, module.with_suffix(".pxd")]
        while due:
            path = due.pop()
            name = path.relative_to(self._root).as_posix()
            if name in found or not path.exists():
                continue
            found.add(name)
            due += self._used_by(path)
        return found

    def _used_by(self, path: Path) -> list[Path]:
        headers = [
            self._core / "c" / name.removeprefix("c/")
            for name in _C_HEADER.findall(path.read_text())
        ]
        if path.suffix == ".h":
            return headers
        used = []
        for each in source_imports.imports(path):
            if each.module == _PACKAGE:
                used += [self._core / f"{name}.pxd" for name in each.names]
            elif each.module.startswith(f"{_PACKAGE}."):
                used.append(self._core / f"{each.module.rpartition('.')[2]}.pxd")
        return headers + used

    def made_of(self, source: str) -> set[str]:
        """Modules to build again when `source` (relative to the checkout) has changed."""
        return {module for module, sources in self.sources.items() if source in sources}

    def built(self, module: str) -> Path | None:
        """The module's shared object; None: not built."""
        found = sorted(self._core.glob(f"{module}.*.so"))
        return found[0] if found else None

    def stale(self) -> set[str]:
        """Modules not built since one of their sources changed."""
        found = set()
        for module, sources in self.sources.items():
            built = self.built(module)
            newest = max((self._root / source).stat().st_mtime for source in sources)
            if built is None or built.stat().st_mtime < newest:
                found.add(module)
        return found
