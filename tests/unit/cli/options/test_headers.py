"""fastprod.cli.options.headers: names, values and columns of headers."""

from __future__ import annotations

import click
import pytest

from fastprod.cli.options.headers import header, header_column


def test_a_header_is_name_and_value() -> None:
    assert header("a=b=c") == ("a", b"b=c")
    assert header("a=") == ("a", b"")
    assert header("a=\udcff") == ("a", b"\xff")
    assert header_column("a=b") == ("a", "b")


@pytest.mark.parametrize("text", ["a", "=b", "\udcff=x"])
def test_a_header_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        header(text)


def test_a_token_in_the_form_of_another_tool_is_not_shown() -> None:
    with pytest.raises(click.BadParameter) as raised:
        header("Authorization: Bearer secret")
    assert str(raised.value) == "it is not of the form name=value"
    with pytest.raises(click.BadParameter, match="UTF-8") as raised:
        header("\udcff=secret")
    assert "secret" not in str(raised.value)


def test_a_header_column_needs_a_column() -> None:
    with pytest.raises(click.BadParameter, match="names no column"):
        header_column("a=")
