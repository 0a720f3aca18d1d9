"""Every id of a clause that the repository names is explained in docs/contract, and the reverse.

An id is P-A.3.12 or B-A3.12. Found are ids without a line or heading, lines that nobody names and
that give no reason for it, as in "(unnamed: of a client that is no longer)", and ids that lack the
letter that tells a producer's clause from a broker's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import checkout
import contract

SUFFIXES = (*checkout.SOURCE_SUFFIXES, ".toml", ".md", ".txt", ".sh", ".yml", "")
DOCUMENTS = (contract.PRODUCER, contract.BROKER)
# What names clauses that are none, to see it found.
EXAMPLES = ("tests/unit/ci/test_check_clauses.py", "tests/unit/ci/test_check_contract.py")

_NO_LETTER = re.compile(
    r"(?<!appendix )(?<![\w.\-/\\])([A-L](?:\.\d+)+|[A-G]\d+\.\d+|L \d+)(?![\w]|\.\d)"
    r"|\b[Cc]ontract ([A-L]\d*)\b(?![\w'-]|\.\d)"
)
_NAMED_ROW = re.compile(r"[PB]-\w+ [A-Z]+(?:_[A-Z]+)+")


def check(root: Path) -> list[str]:
    """All faults of the checkout at `root`."""
    listed = [clause for name in DOCUMENTS for clause in contract.clauses(root / name)]
    explained = {clause.id for clause in listed}
    explained |= {name for document in DOCUMENTS for name in contract.sections(root / document)}
    named: set[str] = set()
    faults = []
    for path, text in _texts(root):
        named |= contract.mentions(text)
        faults += [f"{path}:{_line(text, at)}: {what}" for what, at in _of_text(text, explained)]
    return faults + list(_of_clauses(listed, named))


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    for path in checkout.files(root):
        name = path.relative_to(root).as_posix()
        if path.suffix in SUFFIXES and name not in (*DOCUMENTS, *EXAMPLES):
            try:
                yield name, path.read_text()
            except UnicodeDecodeError:
                continue  # no text


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _of_text(text: str, explained: set[str]) -> Iterator[tuple[str, int]]:
    for name, at in contract.ids(text):
        if name not in explained:
            yield f"{name} is not explained in docs/contract", at
    for name, at in contract.rows(text):
        if name not in explained and _NAMED_ROW.fullmatch(name):
            yield f"{name} is not explained in docs/contract", at
    for match in _NO_LETTER.finditer(text):
        bare = (match[1] or match[2]).replace("L ", "L.")
        meant = [prefix + bare for prefix in ("P-", "B-") if prefix + bare in explained]
        if meant:
            yield f"{match.group()} is to be written {' or '.join(meant)}", match.start()


def _of_clauses(listed: list[contract.Clause], named: set[str]) -> Iterator[str]:
    seen: set[str] = set()
    for clause in listed:
        if clause.id in seen:
            yield f"docs/contract: {clause.id} is explained twice"
        seen.add(clause.id)
        if clause.unnamed is None and clause.id not in named:
            yield f"docs/contract: nobody names {clause.id}"
        if clause.unnamed is not None and clause.id in named:
            yield f"docs/contract: {clause.id} is named after all"
        if clause.unnamed is not None and not clause.unnamed.strip():
            yield f"docs/contract: {clause.id} is unnamed without a reason"


if __name__ == "__main__":
    sys.exit(checkout.conclude("contract", check(checkout.root_argument(sys.argv))))
