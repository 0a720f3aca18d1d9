"""Java's properties files: read as Java reads them, and written so that every reader agrees."""

from __future__ import annotations

import pytest

from fastprod.settings.properties_file import decode_properties, parse_properties, properties_text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=\u00a0b", {"a": "\u00a0b"}),
        ("a\u00a0b=c", {"a\u00a0b": "c"}),
        ("\u00a0# a=b", {"\u00a0#": "a=b"}),
        ("a\fb", {"a": "b"}),
        ("a : = b", {"a": "= b"}),
        ("a=\\ b ", {"a": " b "}),
        ("a=b\\\n# c\nd=e", {"a": "b# c", "d": "e"}),
        ("\\\n# a=b", {"#": "a=b"}),
        ("\\\n\na=b", {"a": "b"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=\\uD835\\udd4f", {"a": "\U0001d54f"}),
        ("a=\\u00e4\\\\u00e4", {"a": "\u00e4\\u00e4"}),
        ("\\u0061=b", {"a": "b"}),
        ("=b", {"": "b"}),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, found: dict[str, str]) -> None:
    """java.util.Properties.load: what a space is, what a line is, and what an escape is."""
    assert parse_properties(text) == found


@pytest.mark.parametrize("text", ["a=hush\\u00e", "a=\\u00g0hush", "\\user=hush"])
def test_what_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits") as told:
        parse_properties(text)
    assert "hush" not in str(told.value)


def test_files_are_utf_8_or_as_java_has_them() -> None:
    for data in (b"a=\xc3\xa4", b"a=\xe4", b"\xef\xbb\xbfa=\xc3\xa4", b"a=\\u00e4"):
        assert parse_properties(decode_properties(data)) == {"a": "\u00e4"}


def test_what_is_written_is_readable() -> None:
    """Nothing is escaped that need not be: people look into these files."""
    settings = {
        "bootstrap.servers": "[::1]:9092,b:9092",
        "sasl.jaas.config": 'M required username="a\\b" password="#! = : ";',
        "path": "C:\\u\u00fc",
        "blank": "  x ",
        "lines": "a\nb\r\tc\f\x7f\0",
        "a b:c=d#!": "",
        "beyond": "\U0001d54f",
    }
    assert properties_text(settings) == (
        "bootstrap.servers=[::1]:9092,b:9092\n"
        'sasl.jaas.config=M required username="a\\\\b" password="#! = : ";\n'
        "path=C:\\\\u\\u00FC\n"
        "blank=\\  x \n"
        "lines=a\\nb\\r\\tc\\f\\u007F\\u0000\n"
        "a\\ b\\:c\\=d\\#\\!=\n"
        "beyond=\\uD835\\uDD4F\n"
    )
    assert parse_properties(properties_text(settings)) == settings
