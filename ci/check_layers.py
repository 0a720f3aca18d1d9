"""Imports go down: holds every module of fastprod to the floors of ci/layers.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import checkout
import source_imports

PACKAGE = "fastprod"
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi")


@dataclass(frozen=True)
class Edge:
    """One module imports another; `where` is file and line."""

    importer: str
    imported: str
    where: str


@dataclass
class House:
    """The modules of a checkout, who imports whom, and what is wrong already while reading."""

    modules: set[str]
    packages: set[str]
    edges: list[Edge]
    faults: list[str]


def covers(pattern: str, module: str) -> bool:
    """`a.b` covers itself; `a.*` covers a and all below it."""
    below = pattern.endswith(".*") and module == pattern[:-2]
    return below or fnmatchcase(module, pattern)


def read_house(root: Path) -> House:
    """Find all modules and resolve their imports of each other."""
    paths = sorted(
        path for path in (root / PACKAGE).rglob("*") if path.suffix in SUFFIXES and path.is_file()
    )
    named = [(path, _module_name(root, path)) for path in paths]
    house = House(
        {name for _, name in named},
        {name for path, name in named if path.stem == "__init__"},
        [],
        [],
    )
    for path, name in named:
        for each in source_imports.imports(path):
            where = f"{path.relative_to(root)}:{each.line}"
            _resolve(house, name, path.stem == "__init__", each, where)
    return house


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _resolve(
    house: House, importer: str, is_package: bool, found: source_imports.Import, where: str
) -> None:
    module = found.module
    if module.startswith("."):
        house.faults.append(f"{where}: a relative import; write the whole name")
        return
    if module != PACKAGE and not module.startswith(PACKAGE + "."):
        return
    if module == PACKAGE or (not found.names and module in house.packages):
        house.faults.append(f"{where}: {importer} imports the package root {module}")
        return
    if module not in house.packages:
        house.edges.append(Edge(importer, module, where))
        return
    for name in found.names:
        target = f"{module}.{name}"
        if target in house.modules:
            house.edges.append(Edge(importer, target, where))
        elif not is_package or importer != module:
            house.faults.append(
                f"{where}: {importer} imports {name} through the package root {module}; "
                f"import it from the module that defines it"
            )


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    rules = tomllib.loads((root / "ci" / "layers.toml").read_text())
    house = read_house(root)
    faults = house.faults
    floor_of: dict[str, int] = {}
    for module in sorted(house.modules):
        floors = _floors(rules["floor"], module)
        if len(floors) == 1:
            floor_of[module] = floors[0]
        else:
            faults.append(f"{module}: on {len(floors)} floors of ci/layers.toml; give it one")
    for edge in house.edges:
        faults += _edge_faults(edge, floor_of, rules)
    faults += _cycles(house.edges, floor_of, rules["floor"])
    return faults


def _floors(floors: list[dict[str, Any]], module: str) -> list[int]:
    """The floors with the longest pattern that covers the module: a name beats a glob."""
    longest: dict[int, int] = {}
    for level, floor in enumerate(floors):
        lengths = [len(pattern) for pattern in floor["modules"] if covers(pattern, module)]
        if lengths:
            longest[level] = max(lengths)
    best = max(longest.values(), default=0)
    return [level for level, length in longest.items() if length == best]


def _edge_faults(edge: Edge, floor_of: dict[str, int], rules: dict[str, Any]) -> Iterator[str]:
    names = [floor["name"] for floor in rules["floor"]]
    here, there = floor_of.get(edge.importer), floor_of.get(edge.imported)
    if edge.imported not in floor_of:
        yield f"{edge.where}: {edge.imported} is no module on a floor"
    elif here is not None and there is not None and there > here:
        yield (
            f"{edge.where}: {edge.importer} (floor {names[here]}) imports "
            f"{edge.imported} from the higher floor {names[there]}"
        )
    for rule in rules.get("forbidden", []):
        if _applies(rule, edge) and any(covers(p, edge.imported) for p in rule["imports"]):
            yield f"{edge.where}: {edge.importer} imports {edge.imported}: {rule['reason']}"


def _applies(rule: dict[str, Any], edge: Edge) -> bool:
    own = edge.importer == edge.imported
    return not own and any(covers(pattern, edge.importer) for pattern in rule["modules"])


def _cycles(
    edges: list[Edge], floor_of: dict[str, int], floors: list[dict[str, Any]]
) -> Iterator[str]:
    """Each circle of imports within a floor, once; between floors there can be none."""
    graph: dict[str, set[str]] = {}
    for edge in edges:
        same = floor_of.get(edge.importer) == floor_of.get(edge.imported)
        if same and edge.importer != edge.imported:
            graph.setdefault(edge.importer, set()).add(edge.imported)
    finished: set[str] = set()

    def walk(module: str, path: list[str]) -> Iterator[str]:
        if module in path:
            circle = [*path[path.index(module) :], module]
            floor = floors[floor_of[module]]["name"]
            yield f"a circle of imports on floor {floor}: {' -> '.join(circle)}"
        elif module not in finished:
            for imported in sorted(graph.get(module, ())):
                yield from walk(imported, [*path, module])
            finished.add(module)

    for module in sorted(graph):
        yield from walk(module, [])


if __name__ == "__main__":
    sys.exit(checkout.conclude("layers", check(checkout.root_argument(sys.argv))))
