"""Checkpoints: small text files, replaced as a whole or not at all (B-C1.4)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fastprod.broker.log.segments.file_handle import replace_file

_VERSION = "0"


def write_checkpoint(path: Path, lines: Iterable[str], sync: bool) -> None:
    """Write a version, the number of entries, and one line for each entry.

    Raises:
        OSError: it cannot be written; the old file stays.
    """
    entries = list(lines)
    text = "".join(f"{line}\n" for line in (_VERSION, str(len(entries)), *entries))
    replace_file(path, text.encode(), sync)


def read_checkpoint(path: Path) -> list[str] | None:
    """The entries; None: there is no such file, or it is damaged."""
    try:
        version, count, *entries = path.read_text().splitlines()
    except (FileNotFoundError, ValueError):
        return None
    return entries if version == _VERSION and count == str(len(entries)) else None
