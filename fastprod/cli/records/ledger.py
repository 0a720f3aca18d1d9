"""Ledger: numbered records, and a check of them when they are read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_NUMBER_DIGITS = 12
_FILLINGS = 61


class Ledger:
    """The records of one run, numbered from 0, and a check of those that were read.

    A value is the record's number, followed by bytes computed from it; keys repeat after
    `key_count` records.

    Args:
        record_count: how many records there are.
        value_bytes: size of each value, at least `smallest_value_bytes`.
        key_count: how many different keys.

    Attributes:
        read_count: records that were read.
        differing_count: of those, with a key or value that no record of the run has.
        repeated_count: read before.
        disordered_count: read after a later record of the same key, or from another partition.
    """

    smallest_value_bytes = _NUMBER_DIGITS

    def __init__(self, record_count: int, value_bytes: int, key_count: int) -> None:
        self.record_count = record_count
        self.read_count = 0
        self.differing_count = 0
        self.repeated_count = 0
        self.disordered_count = 0
        self._seen = bytearray(record_count)
        self._keys = [b"key-%06d" % number for number in range(key_count)]
        self._last_number = [-1] * key_count
        self._partition: list[int | None] = [None] * key_count
        size = value_bytes - _NUMBER_DIGITS
        self._fillings = [
            bytes((seed * 7 + place * 3) % 251 for place in range(size))
            for seed in range(_FILLINGS)
        ]

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of every record in order."""
        keys, fillings = self._keys, self._fillings
        for number in range(self.record_count):
            yield keys[number % len(keys)], b"%012d" % number + fillings[number % _FILLINGS]

    def check(self, chunk: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Check records that were read: (partition, key, value), in the order of reading."""
        keys, fillings, seen = self._keys, self._fillings, self._seen
        for partition, key, value in chunk:
            self.read_count += 1
            digits = b"" if value is None else value[:_NUMBER_DIGITS]
            number = int(digits) if digits.isdigit() else self.record_count
            index = number % len(keys)
            if (
                number >= self.record_count
                or key != keys[index]
                or value != b"%012d" % number + fillings[number % _FILLINGS]
            ):
                self.differing_count += 1
            elif seen[number]:
                self.repeated_count += 1
            else:
                seen[number] = 1
                self._check_order(partition, index, number)

    def _check_order(self, partition: int, index: int, number: int) -> None:
        if self._partition[index] not in (None, partition) or number < self._last_number[index]:
            self.disordered_count += 1
        self._partition[index] = partition
        self._last_number[index] = number

    @property
    def missing_count(self) -> int:
        """Records that were not read."""
        return self._seen.count(0)

    @property
    def differences(self) -> str:
        """The differences from what was sent, in words; "": there are none."""
        counts = {
            "missing": self.missing_count,
            "with other content": self.differing_count,
            "more than once": self.repeated_count,
            "out of their key's order": self.disordered_count,
        }
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
