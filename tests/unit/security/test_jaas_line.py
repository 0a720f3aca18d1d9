"""fastprod.security.jaas_line: words, quotes, escapes and comments as Kafka reads them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastprod.security.jaas_line import JaasError, parse_jaas

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.$-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


def in_quotes(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return quote + escaped.replace("\n", "\\n").replace("\r", "\\r") + quote


@given(NAMES, st.dictionaries(NAMES, TEXTS, max_size=5), st.sampled_from("\"'"), st.booleans())
def test_what_is_written_in_quotes_is_read_again(
    module: str, options: dict[str, str], quote: str, spreads: bool
) -> None:
    equals, end = (" = ", "\n ;\n") if spreads else ("=", ";")
    pairs = "\n".join(f"{name}{equals}{in_quotes(text, quote)}" for name, text in options.items())
    line = parse_jaas(f"{module} required {pairs}{end}")
    assert (line.module, line.options) == (module, options)


@given(st.text(st.sampled_from("abM=;\"'\\/*\n 07"), max_size=40))
def test_any_text_is_a_line_or_refused_without_showing_it(text: str) -> None:
    found: object = None
    with contextlib.suppress(JaasError):
        found = parse_jaas(text)
    if found is None:
        with pytest.raises(JaasError, match=r"^(it|option|a value|the word) [a-z0-9]") as caught:
            parse_jaas(text)
        assert caught.value.__context__ is None
    else:
        assert repr(found).startswith("JaasLine(")


@given(TEXTS.map(lambda text: "~" + text))  # No text of ours has that character.
def test_no_error_and_no_repr_shows_a_value(secret: str) -> None:
    quoted = in_quotes(secret, '"')
    assert secret not in repr(parse_jaas(f"M required password={quoted};"))
    for line in (f"M required password={quoted}", f"M required {quoted} x;", f"M {quoted};"):
        with pytest.raises(JaasError) as caught:
            parse_jaas(line)
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"a b;c=d"', "a b;c=d"),
        ("'it is \"so\"'", 'it is "so"'),
        (r'"q\"b\\s"', 'q"b\\s'),
        (r'"\101\60\7\377\400"', "A0\x07\xff 0"),
        (r'"\a\b\f\n\r\t\v\z"', "\a\b\f\n\r\t\vz"),
        ("word-1.x$", "word-1.x$"),
        ("5", "5"),
        ('""', ""),
        ('"//no comment"', "//no comment"),
    ],
)
def test_values_are_read_as_java_reads_them(value: str, text: str) -> None:
    """Java's StreamTokenizer: an octal escape has a third digit only after 0..3."""
    assert parse_jaas(f"M required x={value};").options == {"x": text}


def test_comments_are_passed_over() -> None:
    line = "// first\nM /* flag */ REQUIRED // here\n a=b / to the end\n c=d; /* last"
    assert parse_jaas(line).options == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "no login module"),
        (";", "no login module"),
        ("M", "no flag"),
        ("M;", "no flag"),
        ("M needed;", "must be one of required"),
        ("M required", "does not end with ';'"),
        ("M required a=b", "does not end with ';'"),
        ("M required a;", "option 1 has no '='"),
        ("M required a=b c d=e;", "option 2 has no '='"),
        ("M required a=;", "option 1 has no value"),
        ("M required a==b;", "option 1 has no value"),
        ('M required a="b;', "in quotes has no end"),
        ('M required a="b\nc";', "in quotes has no end"),
        ("M required a=b; N required;", "more than one login module"),
    ],
)
def test_what_has_not_the_form_is_refused_with_the_place(line: str, why: str) -> None:
    with pytest.raises(JaasError, match=why):
        parse_jaas(line)
