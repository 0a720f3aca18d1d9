"""Strings and bytes as JSON."""

from __future__ import annotations

import base64
import json
import random

import pytest

from fastprod._core.testing.json_doors import json_text_for_test


def test_every_character_is_what_it_was_wherever_it_stands() -> None:
    for code in [*range(0x300), 0x7FF, 0x800, 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]:
        for before in range(10):
            text = "a" * before + chr(code) + "bcdefghijk"
            assert json.loads(json_text_for_test(text.encode(), True)) == text


def test_control_characters_have_jacksons_escapes() -> None:
    assert json_text_for_test(b'\x00\x1f"\\\b\f\n\r\t/\x7f', True) == (
        b'"\\u0000\\u001F\\"\\\\\\b\\f\\n\\r\\t/\x7f"'
    )


def test_a_text_that_grows_sixfold_has_room() -> None:
    assert json_text_for_test(b"\x01" * 100_000, True) == b'"' + b"\\u0001" * 100_000 + b'"'


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xe2\x82a", "\ufffda"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf0\x9fa", "\ufffda"),
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\x80", "\ufffd"),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_what_is_no_utf8_becomes_what_java_makes_of_it(data: bytes, text: str) -> None:
    assert json.loads(json_text_for_test(data, True)) == text


def test_bytes_are_base64() -> None:
    chance = random.Random(5)
    for size in range(100):
        data = chance.randbytes(size)
        assert json_text_for_test(data, False) == b'"' + base64.b64encode(data) + b'"'
