"""Names that match, as RE2 has it, and in time (B-E3)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod.broker.coordinator.group.consumer.regular_expression import (
    InvalidExpression,
    RegularExpression,
)

ATOMS = st.sampled_from(
    ["a", "b", "_", ".", "\\.", "[ab]", "[^a]", "[a-c_]", "\\w", "\\D", "[\\d-]", "^", "$", "[]a]"]
)
COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?"])


def _grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(parts, max_size=3).map("".join),
        st.tuples(parts, parts).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(parts, COUNTS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


@settings(max_examples=300)
@given(
    st.recursive(ATOMS, _grown, max_leaves=8),
    st.lists(st.text("abc_1.", max_size=6), min_size=5, max_size=5),
)
def test_it_matches_what_pythons_own_does(text: str, names: list[str]) -> None:
    """B-E3: where the two syntaxes are one."""
    theirs, ours = re.compile(text), RegularExpression(text)
    assert [ours.matches(each) for each in names] == [
        theirs.fullmatch(each) is not None for each in names
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(?i)my-[a-z]*", "MY-tOpic"),
        ("(?i:A)b", "ab"),
        ("\\Qa.b\\E+", "a.bbb"),
        ("[[:alpha:]]+[[:^digit:]]", "ab-"),
        ("(?P<name>a)(?<other>b)", "ab"),
        ("\\Aa\\z", "a"),
        ("\\x61{", "a{"),
        ("a{,2}", "a{,2}"),
        ("", ""),
        ("a||b", ""),
    ],
)
def test_what_is_re2s_own(text: str, name: str) -> None:
    """B-E3"""
    assert RegularExpression(text).matches(name)
    assert not RegularExpression(text).matches(name + "#")


INVALID = (
    """( ) [ [a *a a** \\ (?=a) a{3,2} a{1001} (?P<x \\1 [z-a] \\b {2} [[:none:]] \\xg0 [a-\\d]"""
)


@pytest.mark.parametrize("text", INVALID.split())
def test_what_is_no_expression_is_refused(text: str) -> None:
    """B-E3: INVALID_REGULAR_EXPRESSION."""
    with pytest.raises(InvalidExpression):
        RegularExpression(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500,
        "((a{100}){100}){100}",
        "(((){999}){999}){999}",
        "(" + "|" * 5_000 + "){900}",
        "\\Q\\E" * 2_501,
    ],
)
def test_nobody_can_have_the_broker_work_for_ever(text: str) -> None:
    """B-E3: neither to understand it, nor to use it."""
    with pytest.raises(InvalidExpression):
        RegularExpression(text)
    assert not RegularExpression("(a+)+$").matches("a" * 240 + "b")
    assert RegularExpression("(a?){200}a{200}").matches("a" * 249)
