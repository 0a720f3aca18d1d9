"""Record headers from Python to wire bytes (contract P-E.3)."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest

from fastprod._core.testing.records_doors import (
    encode_headers_for_test,
    encode_small_headers_for_test,
)
from support.oracle.record_batch import encode_headers


@pytest.mark.parametrize(
    "headers",
    [
        [("a", b"1")],
        [("a", b"1"), ("a", None), ("", b"")],
        (("name", b"x" * 63), ("name", b"x" * 64), ("n" * 200, b"y" * 9000)),
        [("\u00e9\u20ac\U0001d11e", b"\x00\xff")],
        [(f"h{i}", b"%d" % i) for i in range(100)],
    ],
    ids=["one", "null and empty", "width edges", "utf-8", "many"],
)
def test_pairs_are_encoded_like_the_oracle(headers: Any) -> None:
    """P-E.3: duplicates allowed, order kept, a null value is -1."""
    assert encode_headers_for_test(headers) == encode_headers(tuple(headers))


@pytest.mark.parametrize("kind", [list, tuple])
def test_small_headers_are_encoded_alike_or_left_to_the_general_way(kind: Any) -> None:
    """P-E.3: at every size about the room that there is, nothing is cut or written behind it."""
    name = "\u00e9" * 7
    left = []
    for size in [*range(66), *range(440, 520)]:
        for value in (None, b"z" * (size % 5)):
            headers = kind([(name, b"y" * size), ("last", value)])
            found = encode_small_headers_for_test(headers)
            if found is None:
                left.append(size)
            else:
                assert found == encode_headers(tuple(headers))
    assert left
    assert min(left) > 470


@pytest.mark.parametrize(
    "headers",
    [
        {"a": b"1"},
        [["a", b"1"]],
        [("a", b"1", b"2")],
        [("a", bytearray(b"1"))],
        [("a", "1")],
        [(b"a", b"1")],
        [("a", b"")] * 300,
        iter([("a", b"1")]),
    ],
)
def test_unusual_headers_are_left_to_the_general_way(headers: Any) -> None:
    assert encode_small_headers_for_test(headers) is None


def test_a_name_that_has_no_utf_8_is_refused_either_way() -> None:
    for encode in (encode_headers_for_test, encode_small_headers_for_test):
        with pytest.raises(UnicodeEncodeError):
            encode([("\ud800", b"1")])


def test_a_mapping_and_an_iterator_are_pairs_too() -> None:
    pairs: Any = (("a", b"1"), ("b", None))
    wanted = encode_headers(pairs)
    assert encode_headers_for_test(dict(pairs)) == wanted
    encode: Any = encode_headers_for_test
    assert encode(MappingProxyType(dict(pairs))) == wanted
    assert encode(iter(pairs)) == wanted


class Tripled(list[Any]):
    """A list that does not walk as it is long."""

    def __iter__(self) -> Iterator[Any]:
        return iter([pair for pair in super().__iter__() for _ in range(3)])


def test_a_list_of_ones_own_is_counted_as_it_is_walked() -> None:
    """Else the record is damaged, and its broker refuses the whole batch with those of others."""
    assert encode_headers_for_test(Tripled([("a", b"1")])) == encode_headers((("a", b"1"),) * 3)


def test_pairs_that_change_meanwhile_are_refused() -> None:
    pairs: list[Any] = [("a", b"1"), ("b", b"2")]
    walks = []

    class Pair(list[str | bytes]):
        def __iter__(self) -> Iterator[str | bytes]:
            walks.append(1)
            if len(walks) == 2:  # written now: three, which take no more bytes than they did
                pairs[1:] = [("b", None), ("", None)]
                return iter(("a", b""))
            return super().__iter__()

    pairs[0] = Pair(("a", b"1"))
    with pytest.raises(ValueError, match="changed while they were sent"):
        encode_headers_for_test(pairs)


def test_any_contiguous_buffer_is_a_value() -> None:
    wanted = encode_headers((("a", b"xyz"),))
    for value in (bytearray(b"xyz"), memoryview(b"xyz")):
        assert encode_headers_for_test([("a", value)]) == wanted


def test_what_is_no_header_is_refused_by_name() -> None:
    encode: Any = encode_headers_for_test
    with pytest.raises(TypeError, match=r"must be \(name, value\) pairs or a mapping, not int"):
        encode(5)
    with pytest.raises(TypeError, match="name must be a str, not int"):
        encode([(1, b"")])
    with pytest.raises(TypeError, match=r"value of header 'a' must be bytes.*not str"):
        encode([("a", "text")])
    with pytest.raises(TypeError, match="value of header 'a'"):
        encode_headers_for_test([("a", memoryview(b"abcd")[::2])])
