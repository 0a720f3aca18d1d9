"""fastprod.cli.records.ledger: every way in which records can come back wrong is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastprod.cli.records.ledger import Ledger

COUNT = 200
KEYS = 10

Read = list[tuple[int, bytes | None, bytes | None]]


def sent() -> tuple[Ledger, Read]:
    """A ledger, and its records as a right reader gets them from three partitions."""
    ledger = Ledger(COUNT, 30, KEYS)
    return ledger, [
        (number % KEYS % 3, key, value) for number, (key, value) in enumerate(ledger.records())
    ]


def test_records_are_distinct_and_have_the_size() -> None:
    _, read = sent()
    assert {len(value or b"") for _, _, value in read} == {30}
    assert len({value for _, _, value in read}) == COUNT
    assert len({key for _, key, _ in read}) == KEYS


def test_records_that_come_back_as_sent_make_no_difference() -> None:
    ledger, read = sent()
    ledger.check(sorted(read, key=lambda record: record[0]))
    assert ledger.differences == ""
    assert ledger.read_count == COUNT


def lose(read: Read) -> None:
    del read[7]


def repeat(read: Read) -> None:
    read.append(read[7])


def change_value(read: Read) -> None:
    partition, key, value = read[7]
    assert value is not None
    read[7] = (partition, key, value[:-1] + bytes([value[-1] ^ 1]))


def change_key(read: Read) -> None:
    read[7] = (read[7][0], read[8][1], read[7][2])


def lose_value(read: Read) -> None:
    read[7] = (read[7][0], read[7][1], None)


def add_foreign(read: Read) -> None:
    read.append((0, b"key-000000", b"%012d" % COUNT + b"x" * 18))
    read.append((0, None, b"not a number at all"))


def swap(read: Read) -> None:
    read[7], read[7 + KEYS] = read[7 + KEYS], read[7]


def move(read: Read) -> None:
    partition, key, value = read[7 + KEYS]
    read[7 + KEYS] = (partition + 1, key, value)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lose, "1 missing"),
        (repeat, "1 more than once"),
        (change_value, "1 missing, 1 with other content"),
        (change_key, "1 missing, 1 with other content"),
        (lose_value, "1 missing, 1 with other content"),
        (add_foreign, "2 with other content"),
        (swap, "1 out of their key's order"),
        (move, "2 out of their key's order"),
    ],
)
def test_every_harm_is_a_difference(harm: Callable[[Read], None], told: str) -> None:
    ledger, read = sent()
    harm(read)
    ledger.check(read)
    assert ledger.differences == told
