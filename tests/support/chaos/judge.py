"""The judge: a topic, as a reader of committed records sees it, against the journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from support.chaos.journal import Journal

Seen = Mapping[int, Sequence[tuple[int, bytes]]]
"""Offsets and values of each partition, in the order in which they were read."""

MOST = 10


def judge(
    journals: Iterable[Journal], seen: Seen, left_open: Mapping[str, int] | None = None
) -> list[str]:
    """What is wrong; nothing: exactly the committed records are there, once each, in order.

    Args:
        journals: what was told.
        seen: what was read.
        left_open: how many ends of a load's transactions the brokers say that they have not
            written, by the load's name (`ChaosCluster.left_open`). A transaction that is left open
            ends as the next one of its producer does, so that many are forgiven, and counted.
    """
    places = {(index, offset): value for index, rows in seen.items() for offset, value in rows}
    counts = Counter(value for rows in seen.values() for _, value in rows)
    found: list[str] = []
    known: set[bytes] = set()
    for journal in journals:
        forgiven = _forgiven(journal, counts, (left_open or {}).get(journal.name, 0))
        found += journal.violations
        found += _few(_missing(journal, places, counts, forgiven))
        found += _few(_uncommitted(journal, counts, forgiven))
        found += _few(_halves(journal, counts, forgiven))
        known.update(each.value for each in journal.there)
        known |= journal.perhaps | forgiven
        known.update(value for values in journal.all_or_none for value in values)
    found += _few([f"{v!r} is there {n} times" for v, n in counts.items() if n > 1])
    unknown = [f"{value!r} is there, and nobody committed it" for value in counts.keys() - known]
    return found + _few(sorted(unknown)) + _few(_disorder(seen))


def _few(found: list[str]) -> list[str]:
    more = [f"... and {len(found) - MOST} more"] if len(found) > MOST else []
    return found[:MOST] + more


def _forgiven(journal: Journal, counts: Counter[bytes], most: int) -> set[bytes]:
    """The values of transactions that have another end than was told; none if they are more."""
    told = {each.value for each in journal.there}
    wrong = {value for value in journal.absent if counts[value]}
    wrong |= {value for value in told if not counts[value]}
    wrong.update(value for values in _parts(journal, counts) for value in values)
    found = [values for values in journal.transactions if not wrong.isdisjoint(values)]
    if not 0 < len(found) <= most:
        return set()
    journal.count("transactions that Kafka left open", len(found))
    return {value for values in found for value in values}


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


def _halves(journal: Journal, counts: Counter[bytes], forgiven: set[bytes]) -> list[str]:
    return [
        f"{values[0]!r} to {values[-1]!r}: a part of a transaction is there"
        for values in _parts(journal, counts)
        if forgiven.isdisjoint(values)
    ]


def _parts(journal: Journal, counts: Counter[bytes]) -> list[list[bytes]]:
    """Transactions whose end is unknown, and of which a part is there."""
    return [
        values for values in journal.all_or_none if len({counts[value] > 0 for value in values}) > 1
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
