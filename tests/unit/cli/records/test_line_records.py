"""fastprod.cli.records.line_records: lines byte for byte."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.cli.records.line_records import LineRecords

LIMIT = 10


def split(
    data: bytes, separator: bytes = b"", limit: int = LIMIT
) -> tuple[list[tuple[bytes | None, bytes]], list[str]]:
    refused: list[str] = []
    return list(LineRecords(io.BytesIO(data), separator, limit, refused.append)), refused


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"\n\na", [b"", b"", b"a"]),
        (b"a\r\n\xff\x00\x0b\n", [b"a\r", b"\xff\x00\x0b"]),
    ],
)
def test_a_line_ends_at_a_newline_and_nowhere_else(data: bytes, values: list[bytes]) -> None:
    assert split(data) == ([(None, value) for value in values], [])


def test_a_key_is_what_stands_before_the_first_separator() -> None:
    records, refused = split(b"k=v\n=v\nk=\nk=a=b\nnone\n\n", b"=")
    assert records == [(b"k", b"v"), (b"", b"v"), (b"k", b""), (b"k", b"a=b")]
    assert refused == ["line 5 has no key separator b'='", "line 6 has no key separator b'='"]


def test_a_line_beyond_the_limit_is_skipped_to_its_end_and_counted() -> None:
    whole = b"x" * LIMIT
    records, refused = split(whole + b"\n" + whole + b"y\nnext\n" + b"z" * 200_000)
    assert records == [(None, whole), (None, b"next")]
    assert refused == [
        "line 2 is longer than max.request.size = 10 bytes",
        "line 4 is longer than max.request.size = 10 bytes",
    ]


@given(st.lists(st.binary(max_size=LIMIT).filter(lambda line: b"\n" not in line)))
def test_lines_come_back_as_they_were(lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert split(data) == ([(None, line) for line in lines], [])
