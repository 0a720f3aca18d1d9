"""All targets, and their corpora: inputs that each took another way through the parser."""

from __future__ import annotations

import base64
from pathlib import Path

from support.fuzz.column_targets import column_targets
from support.fuzz.connection_targets import connection_targets
from support.fuzz.message_targets import message_targets
from support.fuzz.record_targets import record_targets
from support.fuzz.target import Target
from support.fuzz.text_targets import text_targets
from support.fuzz.tls_targets import tls_targets

CORPUS = Path(__file__).resolve().parents[2] / "fuzz" / "corpus"


def all_targets() -> dict[str, Target]:
    """By name."""
    found = [
        *record_targets(),
        *message_targets(),
        *text_targets(),
        *column_targets(),
        *connection_targets(),
        *tls_targets(),
    ]
    return {target.name: target for target in found}


def read_corpus(name: str, folder: Path = CORPUS) -> list[bytes]:
    """The inputs of a target: one a line, in base64; none if there is no file."""
    path = folder / f"{name}.txt"
    if not path.exists():
        return []
    return [base64.b64decode(line) for line in path.read_text().splitlines()]


def write_corpus(name: str, inputs: list[bytes], folder: Path = CORPUS) -> None:
    """Write them as `read_corpus` reads them."""
    lines = sorted({base64.b64encode(each).decode() for each in inputs})
    (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
