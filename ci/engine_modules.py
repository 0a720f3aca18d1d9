"""Which extension modules of the engine a source file goes into, and which are out of date."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

import source_imports

CORE = "fastprod/_core"
_PACKAGE = "fastprod._core"
_C_HEADER = re.compile(r'^\s*(?:#\s*include|cdef extern from)\s+"((?:c/)?fp_\w+\.h)"', re.MULTILINE)


def module_name(core: Path, source: Path) -> str:
    """The module of a source below `core`, named from there on."""
    return ".".join(source.relative_to(core).with_suffix("").parts)


class EngineModules:
    """The sources of each module: its own, the .pxd files it cimports, their C headers.

    Modules are named from fastprod._core on: "low", or "bytes.low" in a folder.

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
            module_name(self._core, path): frozenset(self._closure(path))
            for path in sorted(self._core.rglob("*.pyx"))
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
            if each.module != _PACKAGE and not each.module.startswith(f"{_PACKAGE}."):
                continue
            inside = self._core.joinpath(*each.module.removeprefix(_PACKAGE).split(".")[1:])
            if inside.is_dir():
                used += [inside / f"{name}.pxd" for name in each.names]
            else:
                used.append(inside.with_suffix(".pxd"))
        return headers + used

    def made_of(self, source: str) -> set[str]:
        """Modules to build again when `source` (relative to the checkout) has changed."""
        return {module for module, sources in self.sources.items() if source in sources}

    def built(self, module: str) -> Path | None:
        """The module's shared object; None: not built."""
        *folders, stem = module.split(".")
        found = sorted(self._core.joinpath(*folders).glob(f"{stem}.*.so"))
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
