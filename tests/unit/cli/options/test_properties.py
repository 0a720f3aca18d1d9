"""fastprod.cli.options.properties: Java properties files, and name=value."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fastprod.cli.options.properties import read_properties, split_properties


def properties(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "client.properties"
    path.write_bytes(text.encode())
    return read_properties(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("linger.ms=5\nacks: all\nclient.id me\n", {"linger.ms": "5", "acks": "all"}),
        ("# a=1\n! b=2\n\n  c = 3 = 4 \n", {"c": "3 = 4 "}),
        ("a=1\r\na=2\rb=3", {"a": "2", "b": "3"}),
        ("hosts=a:1,\\\n    b:2\nx=1", {"hosts": "a:1,b:2", "x": "1"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        (r"a\=b\:c=d\te\u0041\q", {"a=b:c": "d\teAq"}),
        ("alone", {"alone": ""}),
        ("last=1\\", {"last": "1"}),
        ("umlaut=\u00e4", {"umlaut": "\u00e4"}),
        ("\ufefffirst=1", {"first": "1"}),
        ("", {}),
    ],
)
def test_a_file_is_read_as_java_reads_it(tmp_path: Path, text: str, found: dict[str, str]) -> None:
    if "client.id me" in text:
        found = found | {"client.id": "me"}
    assert properties(tmp_path, text) == found


def test_a_file_that_is_not_there_or_none_of_these_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="No such file"):
        read_properties(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"a=\\user hush")
    with pytest.raises(click.UsageError, match=r"is no properties file: a .u is not") as told:
        read_properties(tmp_path / "bad")
    assert "hush" not in str(told.value)


def test_letters_may_be_as_java_has_them(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"a=\xff")
    assert read_properties(tmp_path / "latin") == {"a": "\xff"}


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert split_properties(["a=1", " b = x=y ", "a=2", "c="], "-X") == {
        "a": "2",
        "b": "x=y",
        "c": "",
    }


@pytest.mark.parametrize("pair", ["secret", "=secret", ""])
def test_what_is_no_pair_is_a_usage_error_that_does_not_show_it(pair: str) -> None:
    with pytest.raises(click.UsageError) as raised:
        split_properties(["a=1", pair], "-X")
    assert str(raised.value) == "-X: value 2 is not of the form name=value"
