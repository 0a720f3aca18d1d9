"""Patterns of dates and times; tests/spark has them against Java's."""

from __future__ import annotations

import pytest

from fastprod._core.json.times import ZoneOffsets
from fastprod._core.testing.json_doors import time_text_for_test
from fastprod.spark.formats.time_pattern import (
    DATE_LETTERS,
    TIMESTAMP_LETTERS,
    time_pattern,
)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2001-09-09T01:46:40.123Z"),
        ("''yy''", "'01'"),
        ("'o''clock 'H", "o'clock 1"),
        ("d/M 'of' y", "9/9 of 2001"),
    ],
)
def test_a_pattern_is_read_as_java_reads_it(pattern: str, text: str) -> None:
    compiled = time_pattern("json.timestampFormat", pattern, TIMESTAMP_LETTERS)
    zone = ZoneOffsets([], [0])
    assert time_text_for_test(compiled, zone, 1_000_000_000, 123_456_789) == text


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "is empty"),
        ("yyyy'T", "apostrophe"),
        ("EEE", "EEE is not among what can be written here: y"),
        ("MMM", "MMM is not among"),
        ("HH", "HH is not among"),
        ("yyyy\u00e9", "is not ASCII|is not among"),
        ("-" * 65, "up to 64 parts"),
    ],
)
def test_a_pattern_that_cannot_be_written_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        time_pattern("json.dateFormat", pattern, DATE_LETTERS)
