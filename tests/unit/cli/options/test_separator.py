"""fastprod.cli.options.separator: escapes become bytes."""

from __future__ import annotations

import os

import click
import pytest

from fastprod.cli.options.separator import separator


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (":", b":"),
        (r"\t", b"\t"),
        ("\t", b"\t"),
        (r"\n\r\0\\", b"\n\r\0\\"),
        (r"a\x00\xFfb", b"a\x00\xffb"),
        ("::", b"::"),
        ("\u00e4", "\u00e4".encode()),
        (os.fsdecode(b"\xff"), b"\xff"),
    ],
)
def test_escapes_stand_for_bytes(text: str, found: bytes) -> None:
    assert separator(text) == found


@pytest.mark.parametrize("text", ["", "\\", r"\q", r"a\x1", r"\xzz"])
def test_nothing_and_unknown_escapes_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        separator(text)
