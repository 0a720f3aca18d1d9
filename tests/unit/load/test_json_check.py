"""fastprod.load.json_check: JSON that Spark's reader reads as it is written."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from fastprod.load.file_splits import split_file
from fastprod.load.input_files import InputError, find_files
from fastprod.load.json_check import check_json

INT, TEXT, DOUBLE = pyarrow.int64(), pyarrow.string(), pyarrow.float64()
TYPES = {
    "i": INT,
    "t": TEXT,
    "d": DOUBLE,
    "m": pyarrow.decimal128(20, 0),
    "o": pyarrow.bool_(),
    "s": pyarrow.struct([("x", INT), ("y", pyarrow.list_(DOUBLE))]),
}


def check(path: Path, types: dict[str, Any] = TYPES, **given: Any) -> None:
    given = {"knows_all": True, **given}
    by_lines = not given.get("is_multiline")
    for split in split_file(find_files([str(path)])[0], "json", 40, by_lines=by_lines):
        check_json(split, types, **given)


GOOD = [
    '{"i": 9223372036854775807, "t": "x", "d": 0.1, "o": true, "m": 18446744073709551615}',
    '{"s": {"x": null, "y": [1, 2.5, 1e22, 0.30000000000000004]}}',
    '{"t": "12345678901234567890.5", "d": 123456789012345680, "i": 9007199254740993}',
    "{}",
    '{"d": NaN, "i": null, "t": "1.2.3.4.5.6.7.8.9"}',
]


@pytest.mark.parametrize("is_multiline", [False, True])
def test_values_of_the_types_pass(tmp_path: Path, is_multiline: bool) -> None:
    text = f"[{','.join(GOOD)}]" if is_multiline else "\n".join(GOOD) + "\n\n"
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    check(tmp_path / "a.json", is_multiline=is_multiline)
    check(tmp_path / "b.json.gz", is_multiline=is_multiline)


BAD = {
    "a field that Spark leaves out": '{"e": {}}',
    "a field without a name": '{"": 1}',
    "a name in other case": '{"T": "x"}',
    "a field within": '{"s": {"z": 1}}',
    "a number for a text": '{"t": 5}',
    "a text for a number": '{"i": "5"}',
    "a truth for a number": '{"d": true}',
    "an object for a text": '{"t": {"x": 1}}',
    "half a pair": '{"t": "\\ud800"}',
    "a name twice": '{"i": 1, "i": 2}',
    "a rounded number": '{"d": 12345678901234567.25}',
    "a rounded integer": '{"d": 9007199254740993}',
    "a rounded number within": '{"s": {"y": [1, 0.12345678901234567891]}}',
    "a number too near to zero": '{"d": 1e-400}',
    "a number too large": '{"d": 1e400}',
    "a fraction for an integer": '{"i": 1.5}',
    "an integer that is too large": '{"i": 9223372036854775808}',
    "a decimal that is too large": '{"m": 123456789012345678901}',
}


@pytest.mark.parametrize("is_multiline", [False, True])
@pytest.mark.parametrize("name", list(BAD))
def test_what_spark_would_change_is_refused(tmp_path: Path, name: str, is_multiline: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text(f"[{GOOD[0]},\n{BAD[name]}]" if is_multiline else f"{GOOD[0]}\n{BAD[name]}\n")
    with pytest.raises(InputError, match="--schema"):
        check(path, is_multiline=is_multiline)


@pytest.mark.parametrize(
    ("data", "is_multiline"),
    [
        (b'{"i": 1}{"i": 2}\n', False),
        (b'{"i": 1} and more\n', False),
        (b'{"t": "\xff"}\n', False),
        (b'{"i": 1}\n{"i": 2}\n', True),
        (b"[5]", True),
        (b'[{"t": "\xff"}]', True),
        (b'[{"i": 1}', True),
    ],
)
def test_what_is_no_object_a_line_or_no_document_is_refused(
    tmp_path: Path, data: bytes, is_multiline: bool
) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(InputError):
        check(tmp_path / "a.json", is_multiline=is_multiline)


@pytest.mark.parametrize("is_multiline", [False, True])
def test_names_that_are_looked_for_are_found_in_any_spelling(
    tmp_path: Path, is_multiline: bool
) -> None:
    path = tmp_path / "a.json"
    named = ["i", "t", "x", '"']
    for text, wanted in (
        ('{"i": 1, "\u00e4": "t"}', {"i", "t", '"'}),
        ('{"\\u0078": 1}', {*named}),
    ):
        path.write_text(text, encoding="utf-8")
        split = split_file(find_files([str(path)])[0], "json", by_lines=not is_multiline)[0]
        found = check_json(split, {}, knows_all=False, is_multiline=is_multiline, named=named)
        assert found == wanted


def test_columns_that_are_text_to_the_user_may_have_any_values(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"t": 5, "x": {"y": 1}}\n{"t": "x", "d": 1.5}\n')
    check(path, {"d": DOUBLE}, knows_all=False)
    path.write_text('{"t": 5}\n{"d": 12345678901234567.25}\n')
    with pytest.raises(InputError, match=r"line 2: Spark would round 12345678901234567\.25"):
        check(path, {"d": DOUBLE}, knows_all=False)
