"""Segments that take the place of others (B-C4.6)."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.log.cleaning.cleaner import CleaningStopped, clean
from fastprod.broker.log.log import Log, LogError
from fastprod.error_codes import KAFKA_STORAGE_ERROR, NONE
from support.broker.compacted_log import CompactedLog

NOW = 2**42


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
    log.replace_segments(segments[:2], cleaned, [], log.truncations)
    assert log.segments() == segments[2:]
    made.written = made.written[segments[2].base_offset :]
    made.check()
    log.close()
    with pytest.raises(LogError):
        log.replace_segments(log.segments()[:1], log.new_cleaned(log.segments()[0]), [], 0)


@pytest.mark.parametrize("keeps_files", [False, True])
@pytest.mark.parametrize("moment", ["read", "made"])
def test_what_is_cut_off_meanwhile_does_not_come_back(
    keeps_files: bool, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C4.6: a segment that was cut off in its middle and has grown again is another one."""
    made = filled(tmp_path if keeps_files else None)
    log = made.log
    real = log.new_cleaned if moment == "read" else log.replace_segments

    def cut_off(*arguments: Any) -> Any:
        if log.truncations == 0:
            log.truncate_to(log.segments()[1].base_offset + 1)
            made.written = made.written[: log.log_end_offset]
            for number in range(60):
                made.append([(b"n%d" % (number % 7), b"new %d" % number)])
        return real(*arguments)

    monkeypatch.setattr(Log, real.__name__, lambda self, *arguments: cut_off(*arguments))
    with pytest.raises(CleaningStopped):
        clean(log, NOW)
    assert log.cleaned_offset == 0
    made.check()
    clean(log, NOW)
    made.check()
    log.close()


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


def test_a_compaction_without_descriptors_is_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C4.6: whichever file cannot be opened, the log takes records, and says what it did."""
    real = os.open
    for count in itertools.count():
        made = filled(tmp_path / str(count))
        left = itertools.count(count, -1)

        def scarce(*arguments: Any, left: Iterator[int] = left, **named: Any) -> int:
            if next(left) <= 0:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(*arguments, **named)

        monkeypatch.setattr(os, "open", scarce)
        code = NONE
        try:
            clean(made.log, NOW)
        except LogError as error:
            code = error.error_code
        monkeypatch.setattr(os, "open", real)
        assert not made.log.has_failed
        clean(made.log, NOW)
        made.append([(b"k1", b"last")])
        made.check()
        made.reopen()
        made.check()
        made.log.close()
        assert code in (NONE, KAFKA_STORAGE_ERROR)
        if code == NONE:
            assert count > len(made.log.segments())
            break


@pytest.mark.parametrize("why", [errno.EMFILE, errno.ENOENT])
def test_a_compaction_that_cannot_read_is_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: int
) -> None:
    """B-C4.6: there is no descriptor, or what is looked through was deleted meanwhile."""
    made = filled(tmp_path)
    before = made.log.size_bytes
    for segment in made.log.segments():
        # It is opened again when it is read.
        segment.close()

    def refuse(*arguments: Any, **named: Any) -> int:
        raise OSError(why, os.strerror(why))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(LogError, match="t-0 is not compacted") as caught:
            clean(made.log, NOW)
    assert caught.value.error_code == KAFKA_STORAGE_ERROR
    assert not made.log.has_failed
    clean(made.log, NOW)
    assert made.log.size_bytes < before
    made.check()
    made.log.close()
