"""fastprod.topic_name: what no broker is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.errors import InvalidTopicError
from fastprod.topic_name import check_topic_name


@pytest.mark.parametrize("name", ["t", "x" * 249, "a b/\u20ac"])
def test_what_a_broker_can_be_asked_for_is_left_to_it(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "this one 0"), ("x" * 250, "this one 250"), ("\ud800", r"UTF-8 can express, not .\\ud8")],
)
def test_what_no_request_can_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopicError, match=reason) as caught:
        check_topic_name(name)
    assert caught.value.topic == name[:249]


def test_what_is_no_text_is_a_fault_of_the_program() -> None:
    name: Any = b"t"
    with pytest.raises(TypeError, match="must be a str, not bytes"):
        check_topic_name(name)
