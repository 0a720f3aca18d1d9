"""Journal: what a load was told of its records, for the judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Told(NamedTuple):
    """A record, and where it was said to be."""

    value: bytes
    partition: int
    offset: int


@dataclass
class Journal:
    """Of one load; written by its thread alone, read when that has ended.

    Attributes:
        name: of the load; its values begin with it and a space.
        there: acknowledged, or of a committed transaction, in the order in which they were sent.
        absent: of aborted transactions.
        transactions: the values of each, whatever its end, in their order.
        perhaps: idempotent records that failed: there once at most.
        all_or_none: values of transactions whose end nobody was told.
        violations: what must not happen, and did.
        counts: of what happened, by name.
    """

    name: str
    there: list[Told] = field(default_factory=list)
    absent: set[bytes] = field(default_factory=set)
    transactions: list[list[bytes]] = field(default_factory=list)
    perhaps: set[bytes] = field(default_factory=set)
    all_or_none: list[list[bytes]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def aborted(self, values: list[bytes]) -> None:
        """A transaction with these values has not been committed, and never will be."""
        self.transactions.append(values)
        self.absent.update(values)

    def committed(self, told: list[Told]) -> None:
        """A transaction with these records has been committed."""
        self.transactions.append([each.value for each in told])
        self.there += told

    def unknown(self, values: list[bytes]) -> None:
        """Nobody was told how a transaction with these values has ended."""
        self.transactions.append(values)
        self.all_or_none.append(values)

    def count(self, what: str, n: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + n

    def wrong(self, what: str) -> None:
        self.violations.append(f"{self.name}: {what}")
