"""Each clause and each ported case in scope has a test that proves it, and the test says so.

There are two contracts in docs/contract: what a producer does, and what a broker does. A map for
each names the tests of its clauses, or the reason why a clause does not apply.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import checkout
import contract
from python_statements import statements

TABLES = ("clauses", "cases", "out_of_scope")

# Between two texts: no list of numbers or rows goes on behind it.
_BREAK = "\n|\n"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Contract:
    """What has to be proved, and by what.

    Attributes:
        document: file with the clauses, one a line.
        map: file with the tests of each, or the reason why there are none.
    """

    document: str
    map: str


PRODUCER = Contract(contract.PRODUCER, "tests/contract/clauses.toml")
BROKER = Contract(contract.BROKER, "tests/contract/broker_clauses.toml")


class TestModule:
    """The tests of one file, by name: `test_x`, `TestY`, `TestY::test_z`."""

    __test__ = False  # to pytest it looks like one of its own

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._comments = _comments(text)
        tree = ast.parse(text)
        self._texts: dict[str, str] = {}
        self._add(tree.body, "", ast.get_docstring(tree) or "")

    def _add(self, body: list[ast.stmt], prefix: str, inherited: str) -> None:
        for node in body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                first, last = node.lineno, node.end_lineno or node.lineno
                names, docs = node.targets[0].id, ""
            elif isinstance(node, Definition):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                last = node.end_lineno or node.lineno
                names, docs = node.name, _docstrings(node)
            else:
                continue
            if names.startswith(("test_", "Test")):
                texts = (inherited, docs, self._comments_of(first, last))
                self._texts[prefix + names] = _BREAK.join(texts)
            if isinstance(node, ast.ClassDef) and names.startswith("Test"):
                own = ast.get_docstring(node) or ""
                self._add(node.body, f"{names}::", inherited + _BREAK + own)

    def _comments_of(self, first: int, last: int) -> str:
        """Comments in these lines, and in the block right above them."""
        while first > 1 and self._lines[first - 2].lstrip().startswith("#"):
            first -= 1
        return "\n".join(text for line, text in self._comments.items() if first <= line <= last)

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text_of(self, name: str) -> str:
        """What the test says of itself, its docstrings and comments; and its module's docstring."""
        return self._texts[name]


Load = Callable[[str], TestModule | None]


def _comments(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _docstrings(node: Definition) -> str:
    inside = [each for each in statements(node) if isinstance(each, Definition)]
    return _BREAK.join(ast.get_docstring(each) or "" for each in inside)


def check(root: Path, contracts: tuple[Contract, ...] = (PRODUCER, BROKER)) -> list[str]:
    """All faults of the checkout at `root`."""
    load = cache(lambda path: _module(root, path))
    return [fault for each in contracts for fault in _check(root, each, load)]


def _check(root: Path, held: Contract, load: Load) -> Iterator[str]:
    listed = [clause.id for clause in contract.clauses(root / held.document)]
    tables: dict[str, dict[str, Any]] = tomllib.loads((root / held.map).read_text())
    for name in tables.keys() - set(TABLES):
        yield f"{held.map}: [{name}] is no table of it"
    proofs = [*tables.get("clauses", {}).items(), *tables.get("cases", {}).items()]
    names = [name for name, _ in proofs]
    faults = [*_repeated(listed), *_gaps(set(listed), names, tables.get("out_of_scope", {}))]
    for name, tests in proofs:
        faults += _of_tests(name, tests, load)
    for fault in faults:
        yield f"{held.map}: {fault}"


def _repeated(listed: list[str]) -> Iterator[str]:
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{name} is listed twice"


def _gaps(due: set[str], named: list[str], reasons: dict[str, Any]) -> Iterator[str]:
    proved, excused = set(named), set(reasons)
    for name in due - proved - excused:
        yield f"{name} has neither a test nor a reason"
    for name in (proved | excused) - due:
        yield f"{name} is no clause or case in scope"
    for name in proved & excused:
        yield f"{name} has tests and is out of scope"
    for name, reason in reasons.items():
        if not isinstance(reason, str) or not reason.strip():
            yield f"{name} is out of scope without a reason"
    for name in sorted(proved):
        if named.count(name) > 1:
            yield f"{name} is a clause and a case"


def _module(root: Path, path: str) -> TestModule | None:
    file = root / path
    if file.suffix != ".py" or not path.startswith("tests/") or not file.is_file():
        return None
    return TestModule(file.read_text())


def _of_tests(name: str, tests: Any, load: Load) -> Iterator[str]:
    """Faults of one line of the map."""
    if not isinstance(tests, list) or not tests:
        yield f"{name} names no test"
        return
    for test in tests:
        path, _, test_name = str(test).partition("::")
        test_name = test_name.split("[")[0]
        module = load(path)
        if tests.count(test) > 1:
            yield f"{name} names {test} twice"
        if module is None:
            yield f"{name}: {path} is no file of tests"
        elif test_name not in module:
            yield f"{name}: {path} has no test {test_name}"
        elif name not in contract.mentions(module.text_of(test_name)):
            yield f"{name}: {test} does not say that it proves it"


if __name__ == "__main__":
    sys.exit(checkout.conclude("clauses", check(checkout.root_argument(sys.argv))))
