"""Named faults, put into the source one at a time: the tests named for each have to fail.

tests/contract/mutants.toml holds the faults. Each goes into a copy of the checkout, the modules
that it is part of are built again there, and its tests run. First of all they run without any
fault, and pass.
What was found is in logs/mutants.json with a fingerprint of the sources, so that an interrupted run
goes on where it was; what was built and run is in logs/mutants.log.
Exit code 1: a fault survived, or could not be tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import accept
import checkout
from check_clauses import TestModule
from engine_modules import CORE, EngineModules

MUTANTS = "tests/contract/mutants.toml"
LOG = "logs/mutants.log"
STATE = "logs/mutants.json"
LIMIT_S = 60.0
ALL_TESTS_LIMIT_S = 900.0
BUILD_LIMIT_S = 900.0
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_KEYS = {"name", "file", "old", "new", "tests", "note"}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        name: of the fault.
        file: relative to the checkout.
        old: text of the file, there once.
        new: what stands in its place.
        tests: pytest node ids; at least one of them has to fail.
        note: what goes wrong by it.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    note: str


class Outcome(NamedTuple):
    """What became of a fault: caught, survived, or broken (it could not be tried)."""

    result: str
    how: str
    seconds: float


def load(root: Path) -> list[Mutant]:
    """Every fault of the checkout, in the order of the file."""
    rows: list[dict[str, Any]] = tomllib.loads((root / MUTANTS).read_text())["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def faults(root: Path) -> Iterator[str]:
    """What is wrong with the file of faults itself."""
    rows: list[dict[str, Any]] = tomllib.loads((root / MUTANTS).read_text())["mutant"]
    names = [str(row.get("name")) for row in rows]
    for row, name in zip(rows, names, strict=True):
        if row.keys() != _KEYS:
            yield f"{name}: has {sorted(row)}, wants {sorted(_KEYS)}"
        elif names.count(name) > 1:
            yield f"{name}: is there twice"
        else:
            yield from _of_mutant(root, Mutant(**row))


def _of_mutant(root: Path, mutant: Mutant) -> Iterator[str]:
    path = root / mutant.file
    count = path.read_text().count(mutant.old) if path.is_file() else 0
    if count != 1:
        yield f"{mutant.name}: `old` is {count} times in {mutant.file}"
    if mutant.new == mutant.old or not mutant.note or not mutant.tests:
        yield f"{mutant.name}: changes nothing, or has no note, or names no test"
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if not (root / file).is_file() or name.split("[")[0] not in TestModule(
            (root / file).read_text()
        ):
            yield f"{mutant.name}: there is no test {test}"


class Copy:
    """A copy of the checkout, with what was built, in which faults may be made.

    Args:
        root: the checkout.
        folder: empty; the copy goes there.
        log: what is built and run there is written to it.
    """

    def __init__(self, root: Path, folder: Path, log: Path) -> None:
        self.folder = folder
        self._root = root
        self._log = log
        for path in [*checkout.files(root), *(root / CORE).rglob("*.so")]:
            target = folder / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        self._modules = EngineModules(folder)

    def build_stale(self) -> bool:
        """Build what is not up to date; False: it does not build."""
        return self._build(self._modules.stale())

    def _build(self, modules: set[str]) -> bool:
        if not modules:
            return True
        environment = {
            **os.environ,
            "FASTPROD_ONLY": ",".join(sorted(modules)),
            "FASTPROD_BUILD": "debug",  # compiles in a third of the time
        }
        command = (sys.executable, "setup.py", "-q", "build_ext", "--inplace")
        return self._run(command, environment, BUILD_LIMIT_S)[0] == 0

    def test(self, tests: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Run these tests up to the first failure: (exit code or None if killed, output)."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
        return self._run((*command, "-m", "not kafka", *tests), environment, limit_s)

    def try_mutant(self, mutant: Mutant, limit_s: float) -> Outcome:
        """Make the fault, run its tests, and make it undone."""
        began_s = time.monotonic()
        path = self.folder / mutant.file
        original = path.read_text()
        modules = self._modules.made_of(mutant.file)
        kept: list[tuple[Path, Path]] = []
        aside = self.folder / "aside"
        aside.mkdir()
        times = path.stat()
        self._say(f"== {mutant.name}: {mutant.note}\n")
        try:
            for module in modules:
                if (built := self._modules.built(module)) is not None:
                    kept.append((built, aside / module))
                    built.rename(aside / module)
            path.write_text(original.replace(mutant.old, mutant.new))
            if not self._build(modules):
                return Outcome("broken", f"does not build: see {LOG}", time.monotonic() - began_s)
            code, said = self.test(mutant.tests, limit_s)
        finally:
            path.write_text(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for built, put_aside in kept:
                put_aside.replace(built)
            aside.rmdir()
            # C of the fault would be newer than the source, and be taken for its own.
            shutil.rmtree(self.folder / "build", ignore_errors=True)
        return Outcome(*judge(code, said, limit_s), time.monotonic() - began_s)

    def _run(
        self, command: Sequence[str], environment: dict[str, str], limit_s: float
    ) -> tuple[int | None, str]:
        self._say(f"+ {' '.join(command)}\n")
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code: int | None = None
            try:
                code = child.wait(limit_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
            output.seek(0)
            said = output.read().decode(errors="replace")
        self._say(said)
        return code, said

    def _say(self, text: str) -> None:
        with self._log.open("a") as log:
            log.write(text)


def judge(code: int | None, said: str, limit_s: float) -> tuple[str, str]:
    """From pytest's end to a result and how it came: (result, how)."""
    failed = _FAILED.search(said)
    if code == 0:
        return "survived", "all its tests pass"
    if code is None:
        return "caught", f"hangs: not done after {limit_s:.0f} s"
    if code < 0:
        return "caught", f"crashes: {signal.Signals(-code).name}"
    if code == 1 and failed is not None:
        return "caught", failed[1]
    return "broken", f"pytest ended with {code}: see {LOG}"


class State:
    """Outcomes by name, in a file. Those of other sources do not count."""

    def __init__(self, path: Path, sources: str) -> None:
        self._path = path
        self._sources = sources
        self._rows: dict[str, Any] = {}
        if path.exists():
            self._rows = json.loads(path.read_text())

    def outcome(self, name: str) -> Outcome | None:
        """What was found with these sources, if it was."""
        row = self._rows.get(name)
        if row is None or row["sources"] != self._sources:
            return None
        return Outcome(row["result"], row["how"], row["seconds"])

    def is_settled(self, name: str) -> bool:
        """Whether the fault was tried, and could be."""
        found = self.outcome(name)
        return found is not None and found.result != "broken"

    def note(self, name: str, outcome: Outcome) -> None:
        """Keep an outcome."""
        self._rows[name] = {"sources": self._sources, **outcome._asdict()}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._rows, indent=2) + "\n")
        part.replace(self._path)


def _passes_unmutated(due: Sequence[Mutant], copy: Copy) -> bool:
    """Whether the tests pass without a fault; otherwise no failure of theirs means anything."""
    tests = sorted({test for mutant in due for test in mutant.tests})
    began_s = time.monotonic()
    if not copy.build_stale():
        print(f"the engine does not build: see {LOG}")
        return False
    code, said = copy.test(tests, ALL_TESTS_LIMIT_S)
    failed = _FAILED.search(said)
    how = "pass" if code == 0 else f"do not pass: {failed[1] if failed else code}, see {LOG}"
    seconds = time.monotonic() - began_s
    print(f"without a fault {len(tests)} tests {how}, {seconds:,.1f} s", flush=True)
    return code == 0


def run(root: Path, chosen: Sequence[Mutant], *, again: bool = False) -> int:
    """Try the faults, print a table, return the exit code."""
    log = root / LOG
    log.parent.mkdir(exist_ok=True)
    log.write_text("")
    state = State(root / STATE, accept.fingerprint(root))
    due = [mutant for mutant in chosen if again or not state.is_settled(mutant.name)]
    if due:
        with tempfile.TemporaryDirectory(prefix="fastprod-mutants-") as folder:
            copy = Copy(root, Path(folder), log)
            if not _passes_unmutated(due, copy):
                return 1
            for mutant in due:
                found = copy.try_mutant(mutant, LIMIT_S)
                state.note(mutant.name, found)
                print(
                    f"{mutant.name}: {found.result}, {found.how}, {found.seconds:.1f} s", flush=True
                )
    return _summary(chosen, state)


def _summary(chosen: Sequence[Mutant], state: State) -> int:
    print(f"\n{'fault':40} {'result':8} seconds  how")
    bad = 0
    for mutant in chosen:
        found = state.outcome(mutant.name)
        if found is None:
            continue
        bad += found.result != "caught"
        print(f"{mutant.name:40} {found.result:8} {found.seconds:7,.1f}  {found.how}")
    print(f"{len(chosen)} faults, {len(chosen) - bad} caught")
    return 1 if bad else 0


def main(argv: list[str]) -> int:
    """Parse the command line and run; return the exit code."""
    parser = argparse.ArgumentParser(prog="ci/mutants.py", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the faults and end")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="try this fault; may be given several times"
    )
    parser.add_argument("--again", action="store_true", help="repeat what has been tried, too")
    given = parser.parse_args(argv)
    wrong = list(faults(checkout.ROOT))
    if wrong:
        return checkout.conclude("mutants", wrong)
    mutants = load(checkout.ROOT)
    unknown = set(given.only or ()) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if given.only is None or mutant.name in given.only]
    if given.list:
        for mutant in chosen:
            print(f"{mutant.name:40} {mutant.file}: {mutant.note}")
        return 0
    return run(checkout.ROOT, chosen, again=given.again)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
