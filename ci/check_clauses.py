"""Each clause and each ported case in scope has a test that proves it, and the test says so.

There are two contracts: what a producer does, and what a broker does. Each has a list of its
clauses in tests/vectors; those of the producer's list L are numbers. A map for each names the
tests, or the reason why a clause or case does not apply.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import checkout

# Of transactions, TLS and SASL, but for 64, which is of a pool of equal buffers.
CASES_LEFT_OUT = {64, *range(131, 164), 180, 181}
CASES = frozenset(str(number) for number in range(1, 191) if number not in CASES_LEFT_OUT)
TABLES = ("clauses", "cases", "out_of_scope")

_CLAUSE = re.compile(r"(?<![\w.])[A-J](?:\.\d+)+(?![\w]|\.\d)")
_CASES = re.compile(r"\bL[ .]?(\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)")
_LISTED = re.compile(
    r"\b[Nn]umbers? (\d[\d,\s]*(?:(?:and|to)\s+\d[\d,\s]*)*)of\s+(?:contract )?list L"
)
_SPAN = re.compile(r"(\d+)(?:(?:-|\s+to\s+)(\d+))?")

_BROKER_CLAUSE = re.compile(r"(?<![\w.])([A-E]\d+)(?:\.(\d+)(?:-(\d+))?)?(?![\w]|\.\d)")
_BROKER_CASE = re.compile(r"\b[A-Z]\w*Test(?:\.[a-z]\w+)?\b")
_ROW = r"[A-Za-z][A-Za-z_]{3,}(?:-[a-z]+)*"
_ROWS = re.compile(rf"(?<![\w.])([A-E]\d+)\s+({_ROW}(?:(?:,|\s+and)\s+{_ROW})*)")

# Between two texts: no list of numbers or rows goes on behind it.
_BREAK = "\n|\n"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def producer_mentions(text: str) -> set[str]:
    """Clauses and cases of the producer contract named in `text`; cases as "L 38".

    They are written A.3.12, L 38, L 38, 40-42, or numbers 38 and 40 to 42 of contract list L.
    """
    found = set(_CLAUSE.findall(text))
    for listed in _CASES.findall(text) + _LISTED.findall(text):
        for first, last in _SPAN.findall(listed):
            found.update(f"L {number}" for number in range(int(first), int(last or first) + 1))
    return found


def broker_mentions(text: str) -> set[str]:
    """Clauses, rows of tables and cases of the broker contract named in `text`.

    They are written A3.12, A10.14-17, D1 MESSAGE_TOO_LARGE, INVALID_RECORD-key (rows of the one
    table) or SelectorTest.testMute; a word more or less harms nothing, for it is no row.
    """
    found = set(_BROKER_CASE.findall(text))
    for clause, first, last in _BROKER_CLAUSE.findall(text):
        numbers = range(int(first), int(last or first) + 1) if first else ()
        found.update([f"{clause}.{number}" for number in numbers] or [clause])
    for clause, rows in _ROWS.findall(text):
        found.update(f"{clause} {row}" for row in re.findall(_ROW, rows))
    return found


@dataclass(frozen=True)
class Contract:
    """What has to be proved, where it is listed and mapped, and how tests name it.

    Attributes:
        ids: file with the clauses, one a line.
        map: file with the tests of each, or the reason why there are none.
        mentions: finds what a text names.
        cases: keys of the map's cases that are not in `ids`.
        case_prefix: makes such a key what tests call it.
    """

    ids: str
    map: str
    mentions: Callable[[str], set[str]]
    cases: frozenset[str] = frozenset()
    case_prefix: str = ""


PRODUCER = Contract(
    "tests/vectors/clause_ids.txt", "tests/clauses.toml", producer_mentions, CASES, "L "
)
BROKER = Contract(
    "tests/vectors/broker_clause_ids.txt", "tests/broker_clauses.toml", broker_mentions
)


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
    inside = [each for each in ast.walk(node) if isinstance(each, Definition)]
    return _BREAK.join(ast.get_docstring(each) or "" for each in inside)


def check(root: Path, contracts: tuple[Contract, ...] = (PRODUCER, BROKER)) -> list[str]:
    """All faults of the checkout at `root`."""
    load = cache(lambda path: _module(root, path))
    return [fault for contract in contracts for fault in _check(root, contract, load)]


def _check(root: Path, contract: Contract, load: Load) -> Iterator[str]:
    listed = (root / contract.ids).read_text().splitlines()
    tables: dict[str, dict[str, Any]] = tomllib.loads((root / contract.map).read_text())
    for name in tables.keys() - set(TABLES):
        yield f"{contract.map}: [{name}] is no table of it"
    reasons = tables.get("out_of_scope", {})
    proofs = [*tables.get("clauses", {}).items()]
    proofs += [
        (contract.case_prefix + key, tests) for key, tests in tables.get("cases", {}).items()
    ]
    due = {*listed, *(contract.case_prefix + case for case in contract.cases)}
    faults = [*_repeated(listed), *_gaps(due, [name for name, _ in proofs], reasons)]
    for name, tests in proofs:
        faults += _of_tests(name, tests, load, contract.mentions)
    for fault in faults:
        yield f"{contract.map}: {fault}"


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


def _of_tests(
    name: str, tests: Any, load: Load, mentions: Callable[[str], set[str]]
) -> Iterator[str]:
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
        elif name not in mentions(module.text_of(test_name)):
            yield f"{name}: {test} does not say that it proves it"


if __name__ == "__main__":
    sys.exit(checkout.conclude("clauses", check(checkout.root_argument(sys.argv))))
