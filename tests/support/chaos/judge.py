"""The judge: a topic, as a reader of committed records sees it, against the journals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from support.chaos.journal import Journal

Seen = Mapping[int, Sequence[tuple[int, bytes]]]
"""Offsets and values of each partition, in the order in which they were read."""

LEFT_OPEN = "ends that Kafka left open"
MOST = 10


@dataclass(frozen=True)
class LeftOpen:
    """Ends of a load's transactions that the brokers say that they have not written.

    A transaction that is left open in a partition ends there as the next one of its producer does;
    the last one as an aborted one (`end_what_was_left_open`).

    Attributes:
        ends: how many, by partition.
        stored: value by partition and offset, of what is in the log, whatever became of it.
    """

    ends: Mapping[int, int] = field(default_factory=dict)
    stored: Mapping[tuple[int, int], bytes] = field(default_factory=dict)


def judge(
    journals: Iterable[Journal], seen: Seen, left_open: Mapping[str, LeftOpen] | None = None
) -> list[str]:
    """What is wrong; nothing: exactly the committed records are there, once each, in order.

    Args:
        journals: what was told. One with ends that were left open gets their count, `LEFT_OPEN`.
        seen: what was read.
        left_open: by the name of the load. So many transactions may end there as their next one.
    """
    places = {(index, offset): value for index, rows in seen.items() for offset, value in rows}
    counts = Counter(value for rows in seen.values() for _, value in rows)
    found: list[str] = []
    known: set[bytes] = set()
    for journal in journals:
        forgiven = _forgiven(journal, places, (left_open or {}).get(journal.name, LeftOpen()))
        found += journal.violations
        found += _few(_missing(journal, places, counts, forgiven))
        found += _few(_uncommitted(journal, counts, forgiven))
        found += _few(_halves(journal, counts))
        known.update(each.value for each in journal.there)
        known |= journal.perhaps | forgiven
        known.update(value for values in journal.all_or_none for value in values)
    found += _few([f"{v!r} is there {n} times" for v, n in counts.items() if n > 1])
    unknown = [f"{value!r} is there, and nobody committed it" for value in counts.keys() - known]
    return found + _few(sorted(unknown)) + _few(_disorder(seen))


def _few(found: list[str]) -> list[str]:
    more = [f"... and {len(found) - MOST} more"] if len(found) > MOST else []
    return found[:MOST] + more


def _forgiven(
    journal: Journal, places: Mapping[tuple[int, int], bytes], left_open: LeftOpen
) -> set[bytes]:
    """Records that have another end than was told, for Kafka has left theirs open there; none of a
    partition where that does not explain all."""
    number_of = {value: n for n, values in enumerate(journal.transactions) for value in values}
    stored: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for (index, _), value in left_open.stored.items():
        if value in number_of:
            stored[index][number_of[value]].append(value)
    visible = set(places.values())
    forgiven: list[list[bytes]] = []
    for index, most in left_open.ends.items():
        transactions = [stored[index][number] for number in sorted(stored[index])]
        found = _ended_as_the_next(journal, transactions, visible)
        forgiven += found if len(found) <= most else []
    if forgiven:
        journal.counts[LEFT_OPEN] = len(forgiven)
    return {value for values in forgiven for value in values}


def _ended_as_the_next(
    journal: Journal, transactions: Sequence[Sequence[bytes]], visible: Collection[bytes]
) -> list[list[bytes]]:
    """Those of a partition's transactions that have another end than was told; none, if not all of
    them are there as a whole or not at all, and as the next one is."""
    committed = {each.value for each in journal.there}
    found = []
    is_next_there = False
    for values in reversed(transactions):
        is_there = values[0] in visible
        if any((value in visible) != is_there for value in values):
            return []
        if values[0] in (journal.absent if is_there else committed):
            if is_there != is_next_there:
                return []
            found.append([*values])
        is_next_there = is_there
    return found


def _missing(
    journal: Journal,
    places: Mapping[tuple[int, int], bytes],
    counts: Counter[bytes],
    forgiven: set[bytes],
) -> list[str]:
    found = []
    for told in journal.there:
        at = places.get((told.partition, told.offset))
        if counts[told.value] == 0:
            if told.value not in forgiven:
                found.append(f"{told} is not there; there is {at!r}")
        elif at != told.value:
            found.append(f"{told} is elsewhere; there is {at!r}")
    return found


def _uncommitted(journal: Journal, counts: Counter[bytes], forgiven: set[bytes]) -> list[str]:
    there = [value for value in journal.absent - forgiven if counts[value]]
    return [f"{value!r} is there, and was aborted" for value in there]


def _halves(journal: Journal, counts: Counter[bytes]) -> list[str]:
    return [
        f"{values[0]!r} to {values[-1]!r}: a part of a transaction is there"
        for values in journal.all_or_none
        if len({counts[value] > 0 for value in values}) > 1
    ]


def _disorder(seen: Seen) -> list[str]:
    """Offsets grow; and so do the numbers of each load's records, which are in their values."""
    found = []
    for index, rows in seen.items():
        last_offset = -1
        last: dict[bytes, int] = {}
        for offset, value in rows:
            name, number = value.split(b" ", 2)[:2]
            if offset <= last_offset:
                found.append(f"partition {index}: offset {offset} behind {last_offset}")
            if int(number) <= last.get(name, -1):
                found.append(f"partition {index}: {value[:40]!r} behind number {last[name]}")
            last_offset, last[name] = offset, int(number)
    return found
