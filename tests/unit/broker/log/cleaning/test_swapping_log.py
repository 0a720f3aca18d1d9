"""Segments that take the place of others (B-C4.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprod.broker.log.log import LogError
from support.broker.compacted_log import CompactedLog


def filled(directory: Path | None) -> CompactedLog:
    made = CompactedLog(directory)
    for number in range(60):
        made.append([(b"k%d" % (number % 7), b"%d" % number)])
    return made


@pytest.mark.parametrize("keeps_files", [False, True])
def test_what_is_removed_meanwhile_is_not_put_back(keeps_files: bool, tmp_path: Path) -> None:
    """B-C4.6: a truncation, and a deletion of records, win."""
    made = filled(tmp_path if keeps_files else None)
    log = made.log
    segments = log.segments()
    cleaned = log.new_cleaned(segments[0])
    log.delete_records(segments[2].base_offset)
    log.replace_segments(segments[:2], cleaned, [])
    assert log.segments() == segments[2:]
    made.written = made.written[segments[2].base_offset :]
    made.check()
    log.close()
    with pytest.raises(LogError):
        log.replace_segments(log.segments()[:1], log.new_cleaned(log.segments()[0]), [])


def test_how_far_it_was_compacted_is_found_again(tmp_path: Path) -> None:
    """B-C8: and never beyond the end."""
    made = filled(tmp_path)
    made.log.note_cleaned(50)
    made.reopen()
    assert made.log.cleaned_offset == 50
    made.log.truncate_to(20)
    assert made.log.cleaned_offset == 20
    made.log.note_cleaned(10**9)
    assert made.log.cleaned_offset == made.log.log_end_offset
    made.log.close()
