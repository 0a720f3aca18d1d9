"""The I/O thread never needs the interpreter: nothing it can reach takes the GIL or sees an object.

It has no Python thread state, so a single such call would crash, or wait for a thread that waits
for it. Proved on the generated C, after the preprocessor, so that macros and inline functions count
too. From the thread's main function on, every name in the body of every function that can be
reached must be one of: a function of ours (which is followed, through modules and headers), a
function that ci/nogil.toml allows, or plain data. What is called through a pointer must be listed
there with all that it can point to, and every assignment to it is compared with the list.

Beside that, each `with gil` in the sources says why (`# GIL: why`), and no other function takes the
GIL in the C that was made of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import c_source
import checkout
import source_imports
from engine_modules import module_name

CORE = Path("fastprod", "_core")
GENERATED = Path("build", "cython-release") / CORE
PREFIX = "__pyx_f_8fastprod_5_core_"
RULES = Path("ci", "nogil.toml")

_PART = re.compile(r"(\d+)(\w+)")
_PYTHON = re.compile(r"_?Py(?:[A-Z]\w*|_\w+)$|__Pyx_|__pyx_")
# What Cython calls its own: functions, variables, temporaries, results, labels, enums, constants.
_PLAIN = re.compile(r"__pyx_(?:[vterL]_?|t_|k_|vp_)\w*$|__pyx_f_|Py_ssize_t$")
_WITH_GIL = re.compile(r"^[^#\n]*\bwith gil\b[^#\n]*:", re.MULTILINE)
_DEFINITION = re.compile(r"^\s*(?:cdef|cpdef|def)\b[^(\n]*?(\w+)\s*\(", re.MULTILINE)
_TAG = re.compile(r"#\s*GIL: \S")


@dataclass(frozen=True, order=True)
class Place:
    """A function in a module, which is named from fastprod._core on."""

    module: str
    name: str

    def __str__(self) -> str:
        found = _demangled(self.name)
        return f"{self.module}.{self.name if found is None else found[1]}"


@dataclass
class Engine:
    """The generated C of all modules."""

    units: dict[str, c_source.TranslationUnit]
    rules: dict[str, Any]
    reached: dict[Place, Place | None] = field(default_factory=dict)

    def path_to(self, place: Place) -> str:
        """How the thread gets there, from its main function on."""
        steps = [str(place)]
        before = self.reached[place]
        while before is not None:
            steps.append(str(before))
            before = self.reached[before]
        return " -> ".join(reversed(steps))

    def place_of(self, module: str, name: str) -> Place | None:
        """The function that `name` means in `module`: its own one, or another module's."""
        if name in self.units[module].functions:
            return Place(module, name)
        found = _demangled(name)
        place = None if found is None else Place(found[0], name)
        return place if place is not None and self.exists(place) else None

    def follow(self, start: Place) -> None:
        """Fill `reached` with every function that `start` can get to."""
        self.reached = {start: None}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            function = self.units[here.module].functions[here.name]
            for name in sorted(function.names):
                self._reach(self.place_of(here.module, name), here, waiting)
            for name in sorted(function.member_calls | function.calls):
                for target in self.rules["pointer"].get(name, {}).get("targets", ()):
                    self._reach(_named(target), here, waiting)

    def _reach(self, place: Place | None, before: Place, waiting: deque[Place]) -> None:
        if place is not None and place not in self.reached and self.exists(place):
            self.reached[place] = before
            waiting.append(place)

    def exists(self, place: Place) -> bool:
        return place.module in self.units and place.name in self.units[place.module].functions


def _demangled(name: str) -> tuple[str, str] | None:
    """Module and function of a name that Cython made: 6engine_6sender__wake; else None."""
    if not name.startswith(PREFIX):
        return None
    rest = name.removeprefix(PREFIX)
    parts = []
    while (found := _PART.match(rest)) is not None:
        length = int(found[1])
        parts.append(found[2][:length])
        rest = found[2][length + 1 :]
    return ".".join(parts), rest


def _named(target: str) -> Place:
    """`sender._wake` as the function that Cython made of it; `crc32c.fp_x` is a header's."""
    module, _, name = target.rpartition(".")
    parts = "".join(f"{len(part)}{part}_" for part in module.split("."))
    return Place(module, name if name.startswith("fp_") else f"{PREFIX}{parts}{name}")


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`, whose modules must be built in place."""
    rules = tomllib.loads((root / RULES).read_text())
    core = root / CORE
    sources = {module_name(core, path): path for path in sorted(core.rglob("*.pyx"))}
    faults = list(_stale(root, list(sources.values())))
    if faults:
        return faults
    units = {}
    for module, source in sources.items():
        generated = _generated(root, source)
        try:
            units[module] = c_source.read_unit(generated, [core])
        except subprocess.CalledProcessError as error:
            return [f"{generated.relative_to(root)}: the preprocessor failed: {error.stderr}"]
    engine = Engine(units, rules)
    for main in rules["main"]:
        start = _named(main)
        if not engine.exists(start):
            faults.append(f"{RULES}: there is no function {main}")
            continue
        engine.follow(start)
        faults += _thread_faults(engine)
    faults += _pointer_faults(engine)
    for module, source in sources.items():
        faults += _gil_faults(root, source, module, units[module])
    return faults


def _generated(root: Path, source: Path) -> Path:
    """What Cython made of a source."""
    return root / GENERATED / source.relative_to(root / CORE).with_suffix(".c")


def _stale(root: Path, sources: list[Path]) -> Iterator[str]:
    for source in sources:
        generated = _generated(root, source)
        if not generated.exists():
            yield f"{generated.relative_to(root)}: is missing; build it first: make dev"
        elif generated.stat().st_mtime < source.stat().st_mtime:
            yield f"{generated.relative_to(root)}: is older than its source; build it: make dev"


def _thread_faults(engine: Engine) -> Iterator[str]:
    """What the thread can reach and must not."""
    prefixes = tuple(engine.rules["compiler"])
    pointers = set(engine.rules["pointer"])
    allowed = {name for names in engine.rules["c"].values() for name in names} | pointers
    for place in engine.reached:
        way = engine.path_to(place)
        function = engine.units[place.module].functions[place.name]
        where = f"{Path(function.file).name}:{function.line}"
        python = {name for name in function.names if _PYTHON.match(name) and not _PLAIN.match(name)}
        for name in sorted(python):
            yield f"{where}: {name} in {way}"
        for name in sorted(function.calls - python - allowed):
            if engine.place_of(place.module, name) is None and not name.startswith(prefixes):
                yield f"{where}: {name}() is not known to need no GIL, in {way}"
        for name in sorted(function.member_calls - pointers):
            yield f"{where}: calls ->{name}, which {RULES} does not list, in {way}"
        for text in function.expression_calls:
            yield f"{where}: calls what has no name, {text!r}, in {way}"


def _pointer_faults(engine: Engine) -> Iterator[str]:
    """Every assignment to a listed pointer puts there what the list says."""
    targets = {
        pointer: {_named(target) for target in rule.get("targets", ())}
        for pointer, rule in engine.rules["pointer"].items()
    }
    for pointer, listed in targets.items():
        for target in sorted(listed):
            if not engine.exists(target):
                yield f"{RULES}: ->{pointer} names {target}, which does not exist"
    # What is assigned is looked at, not taken: it may be an assignment, too.
    assigned = re.compile(rf"(?:->|\.)\s*({'|'.join(targets)})\s*=(?!=)(?=([^;]*);)")
    for module, unit in engine.units.items():
        for found in assigned.finditer(unit.text):
            pointer = found[1]
            for name in re.findall(r"[A-Za-z_]\w*", found[2]):
                place = engine.place_of(module, name)
                if place is not None and place not in targets[pointer]:
                    yield f"{module}: ->{pointer} is given {place}, which {RULES} does not list"


def _gil_faults(
    root: Path, source: Path, module: str, unit: c_source.TranslationUnit
) -> Iterator[str]:
    """Who takes the GIL says so in the source, and why."""
    text = source.read_text()
    plain = source_imports.blank_strings(text)
    lines = plain.splitlines()
    takers = set()
    for found in _WITH_GIL.finditer(plain):
        number = plain.count("\n", 0, found.end())
        before = list(_DEFINITION.finditer(plain, 0, found.end()))
        if before:
            takers.add(before[-1][1])
        if not any(_TAG.search(line) for line in lines[max(0, number - 1) : number + 1]):
            yield f"{source.relative_to(root)}:{number + 1}: a `with gil` without `# GIL: why`"
    for name, function in unit.functions.items():
        if not name.startswith(PREFIX) or "PyGILState_Ensure" not in function.names:
            continue
        if not any(name.endswith(f"_{taker}") for taker in takers):
            yield f"{source.relative_to(root)}: {Place(module, name)} takes the GIL unsaid"


if __name__ == "__main__":
    sys.exit(checkout.conclude("nogil", check(checkout.root_argument(sys.argv))))
