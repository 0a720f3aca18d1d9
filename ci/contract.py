"""The clauses of docs/contract, and what a text names of them.

A clause is a line ``- `P-A.3.12` text`` of one of two documents; headings name sections: `P-A.3`.
Texts name clauses by id, also as a range: `P-L.40-42`; rows of a table by clause and row, as in
`B-D1 MESSAGE_TOO_LARGE, INVALID_RECORD-key`; cases of Kafka's tests as SelectorTest.testMute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PRODUCER = "docs/contract/producer.md"
BROKER = "docs/contract/broker.md"

_LINE = re.compile(r"^- `([^`]+)` (.+)$", re.MULTILINE)
_UNNAMED = re.compile(r"\(unnamed: (.*)\)$")
_HEADING = re.compile(r"^#+ ([PB]-[A-L][\d.]*)(?= )", re.MULTILINE)

_ID = re.compile(r"(?<![\w-])([PB]-[A-L](?:\.?\d+(?:\.\d+)*)?)(?:-(\d+)\b)?(?![\w-]|\.\d)")
_CASE = re.compile(r"\b[A-Z]\w*Test(?:\.[a-z]\w+)?\b")
_ROW = r"[A-Za-z][A-Za-z_]{3,}(?:-[a-z]+)*"
_ROWS = re.compile(rf"(?<![\w-])(B-[A-E]\d+)\s+({_ROW}(?:(?:,|\s+and)\s+{_ROW})*)")


@dataclass(frozen=True)
class Clause:
    """One line of a document.

    Attributes:
        id: what texts call it.
        unnamed: why nobody needs to name it; None: somebody has to.
    """

    id: str
    unnamed: str | None


def clauses(document: Path) -> list[Clause]:
    """The document's lines, in its order."""
    found = []
    for name, text in _LINE.findall(document.read_text()):
        reason = _UNNAMED.search(text)
        found.append(Clause(name, reason and reason[1]))
    return found


def sections(document: Path) -> set[str]:
    """What the document's headings are called."""
    return set(_HEADING.findall(document.read_text()))


def ids(text: str) -> Iterator[tuple[str, int]]:
    """Each id that `text` names, of a range each in it, and where; not rows of tables."""
    for match in _ID.finditer(text):
        clause, last = match.groups()
        head, _, first = clause.rpartition(".")
        if last is None:
            yield clause, match.start()
        elif not head or int(first) >= int(last):
            yield match.group(), match.start()
        else:
            for number in range(int(first), int(last) + 1):
                yield f"{head}.{number}", match.start()


def rows(text: str) -> Iterator[tuple[str, int]]:
    """Each row of a table, and where; a word more or less harms nothing, for it is no row."""
    for match in _ROWS.finditer(text):
        for row in re.findall(_ROW, match[2]):
            yield f"{match[1]} {row}", match.start()


def mentions(text: str) -> set[str]:
    """Clauses, sections, rows and cases that `text` names."""
    named = {name for name, _ in (*ids(text), *rows(text))}
    return named | set(_CASE.findall(text))
