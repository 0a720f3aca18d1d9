"""What fastprod imports is declared in pyproject.toml, and what is declared there is used."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import checkout
import source_imports

SUFFIXES = (".py", ".pyx")
# Extras for who works on the project: what they name, the package does not import.
WORKSHOP = ("test", "dev")
# Of "confluent-kafka[schemaregistry]>=2.11" what comes before the bracket.
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Declared:
    """What pyproject.toml and ci/dependencies.toml say.

    Attributes:
        base: names of the packages that are always installed.
        extras: the same by extra, without those of the workshop.
        parts: ci/dependencies.toml's.
        packages: module to package, where the names differ.
        loaded: package to the text by which it is loaded.
    """

    def __init__(self, root: Path) -> None:
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
        rules = tomllib.loads((root / "ci" / "dependencies.toml").read_text())
        self.base = {_package(line) for line in project["dependencies"]}
        self.extras: dict[str, set[str]] = {
            extra: {_package(line) for line in lines}
            for extra, lines in project["optional-dependencies"].items()
            if extra not in WORKSHOP
        }
        self.parts: list[dict[str, Any]] = rules["part"]
        self.packages: dict[str, str] = rules["packages"]
        self.loaded: dict[str, str] = rules["loaded"]

    def extras_of(self, module: str) -> list[str]:
        """The extras of the part that the module belongs to."""
        length, extras = -1, []
        for part in self.parts:
            for pattern in part["modules"]:
                if _covers(pattern, module) and len(pattern) > length:
                    length, extras = len(pattern), part["extras"]
        return list(extras)


def _package(requirement: str) -> str:
    found = _NAME.match(requirement)
    if found is None:
        raise ValueError(f"pyproject.toml: {requirement!r} names no package")
    return found.group()


def _covers(pattern: str, module: str) -> bool:
    below = pattern.endswith(".*") and module == pattern[:-2]
    return below or fnmatchcase(module, pattern)


def _sources(root: Path) -> list[Path]:
    paths = [path for path in (root / "fastprod").rglob("*") if path.suffix in SUFFIXES]
    return sorted([*paths, *root.glob("pyspark_*.py")])


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    declared = Declared(root)
    used: set[str] = set()
    faults = []
    text = ""
    for path in _sources(root):
        place = path.relative_to(root)
        module = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
        extras = declared.extras_of(module)
        allowed = declared.base.union(*(declared.extras[extra] for extra in extras))
        for line, package in _foreign(path, declared):
            used.add(package)
            if package not in allowed:
                faults.append(
                    f"{place}:{line}: imports {package}, which is not among the dependencies"
                    + "".join(f", nor in fastprod[{extra}]" for extra in extras)
                )
        text += path.read_text()
    return faults + list(_unused(declared, used, text))


def _foreign(path: Path, declared: Declared) -> Iterator[tuple[int, str]]:
    """Line and package of each import of somebody else's module, but for types only."""
    for each in source_imports.imports(path):
        top = each.module.partition(".")[0]
        own = top in ("", "fastprod") or top in sys.stdlib_module_names
        if each.at_run_time and not own:
            yield each.line, declared.packages.get(top, top)


def _unused(declared: Declared, used: set[str], text: str) -> Iterator[str]:
    wanted = declared.base.union(*declared.extras.values())
    for package in sorted(wanted - used):
        if declared.loaded.get(package, "\0") not in text:
            yield f"pyproject.toml: {package} is declared, and nothing in fastprod uses it"
    for package in sorted(declared.loaded.keys() - wanted):
        yield f"ci/dependencies.toml: {package} is loaded, and not declared in pyproject.toml"


if __name__ == "__main__":
    sys.exit(checkout.conclude("dependencies", check(checkout.root_argument(sys.argv))))
