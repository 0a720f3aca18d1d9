"""fastprod.cli.records.payloads: values to send, and how many bytes they have."""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import pytest

from fastprod.cli.records.payloads import (
    MonotonicPayloads,
    Payloads,
    RepeatedPayloads,
    file_payloads,
    random_payloads,
)


def first(payloads: Payloads, count: int) -> list[bytes]:
    return list(itertools.islice(payloads, count))


@pytest.mark.parametrize("payloads", [RepeatedPayloads([b"a", b"", b"ccc"]), MonotonicPayloads()])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 10, 11, 99, 100, 101, 1234])
def test_the_bytes_of_so_many_values_are_told_without_making_them(
    payloads: Payloads, count: int
) -> None:
    assert payloads.bytes_of(count) == sum(map(len, first(payloads, count)))


def test_random_values_have_the_size_are_letters_and_differ() -> None:
    values = first(random_payloads(20, 500), 500)
    assert {len(value) for value in values} == {20}
    assert all(value.isalpha() and value.isupper() for value in values)
    assert len(set(values)) == 500


def test_the_pool_of_random_values_is_bounded_in_number_and_bytes() -> None:
    assert len(set(first(random_payloads(50, 10**9), 10_500))) == 10_000
    large = random_payloads(9 * 1024 * 1024, 10**9)
    assert len(set(first(large, 5))) == 3


def test_monotonic_values_are_numbers() -> None:
    assert first(MonotonicPayloads(), 12)[-3:] == [b"9", b"10", b"11"]


def test_a_file_is_cut_at_the_delimiter_and_repeated(tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_bytes(b"a\xff;;b;")
    assert first(file_payloads(file, b";"), 4) == [b"a\xff", b"", b"b", b"a\xff"]
    assert first(file_payloads(file, b"\n"), 2) == [b"a\xff;;b;"] * 2


def test_an_empty_or_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(click.UsageError, match="is empty"):
        file_payloads(tmp_path / "empty", b"\n")
    with pytest.raises(click.UsageError, match="No such file"):
        file_payloads(tmp_path / "none", b"\n")
