"""Workload: a sequence of records of every kind, each derivable from its number alone."""

from __future__ import annotations

import pydoc_data.topics
import random
import time
from typing import NamedTuple

FIRST_TIMESTAMP_MS = 1_700_000_000_000
LARGEST_VALUE_BYTES = 200_000
NOISE_BYTES = 1 << 20
KEY_COUNT = 4_000
LONG_KEY = b"/a-key-as-long-as-a-path" * 6
MASK = (1 << 64) - 1
# Odd, so that multiplying by it is one-to-one modulo a power of two.
SCATTER = 0x9E3779B1


class WorkRecord(NamedTuple):
    """One record as it is sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def mixed(number: int) -> int:
    """64 well mixed bits of a number (splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


class Workload:
    """`count` records; record i is the same in every process for the same arguments.

    Each has a timestamp of its own, from which its number follows: so a reader knows which record
    it should be looking at even if its key, value and headers are all empty. The timestamps of
    neighbours are far apart, in both directions.

    Values: none, empty, lines of English text, binary, and a few of up to 200 kB, half of them
    text. About 1 kB on average. Two in five have no key; a key belongs to one lane (see `lane`),
    but for the empty key, which is everybody's.

    Args:
        count: number of records.
        seed: another seed gives other records.
        lanes: records i with the same i % lanes are sent in order, by one thread.
        largest_bytes: no value is larger.
        is_recent: the timestamps are of the time before now, not of a fixed one long ago. A node of
            Apache Kafka that starts again forgets producers whose records are dated more than a day
            back, and then takes what is sent again for new; and every five minutes brokers delete
            what is dated more than a week back.

    Threads: any.
    """

    def __init__(
        self,
        count: int,
        *,
        seed: int = 1,
        lanes: int = 4,
        largest_bytes: int = LARGEST_VALUE_BYTES,
        is_recent: bool = False,
    ) -> None:
        self.count = count
        self.seed = seed
        self.lanes = lanes
        self.largest_bytes = largest_bytes
        self._salt = mixed(seed)
        text = "\n".join(str(page) for page in pydoc_data.topics.topics.values())
        self._text = text.encode()
        self._lines = [line for line in self._text.splitlines() if line]
        self._noise = random.Random(seed).randbytes(NOISE_BYTES)
        self._span = 1 << max(count - 1, 1).bit_length()
        self._unscatter = pow(SCATTER, -1, self._span)
        now_ms = int(time.time() * 1000)
        self._first_timestamp_ms = now_ms - self._span if is_recent else FIRST_TIMESTAMP_MS

    def lane(self, index: int) -> int:
        """The thread that sends record `index`."""
        return index % self.lanes

    def index_of(self, timestamp_ms: int) -> int | None:
        """The number of the record with this timestamp; None: there is no such record."""
        index = (timestamp_ms - self._first_timestamp_ms) * self._unscatter % self._span
        if index >= self.count or self.timestamp_ms(index) != timestamp_ms:
            return None
        return index

    def timestamp_ms(self, index: int) -> int:
        """The timestamp of record `index`: no other has it."""
        return self._first_timestamp_ms + index * SCATTER % self._span

    def record(self, index: int) -> WorkRecord:
        """Record `index`, 0 to count - 1."""
        bits = mixed(index ^ self._salt)
        return WorkRecord(
            self._key(index, bits & 0xFFFF),
            self._value(index, bits >> 16 & 0xFFFF, bits >> 32),
            self._headers(index, bits >> 48),
            self.timestamp_ms(index),
        )

    def _key(self, index: int, choice: int) -> bytes | None:
        if choice % 5 < 2:
            return None
        if choice % 100 == 2:
            return b""
        number = (choice // 5) % (KEY_COUNT // self.lanes) * self.lanes + self.lane(index)
        return b"key %d%b" % (number, LONG_KEY if number % 50 == 3 else b"")

    def _value(self, index: int, choice: int, place: int) -> bytes | None:
        if index == 1:
            return self._slice(self._text, place, self.largest_bytes)
        kind = choice % 1000
        if kind < 30:
            return None
        if kind < 60:
            return b""
        if kind < 67:
            source = self._text if kind < 64 else self._noise
            return self._slice(source, place, place % self.largest_bytes + 1)
        if kind < 170:
            source = self._text if kind < 120 else self._noise
            return self._slice(source, place, min(place % 4_000, self.largest_bytes))
        if kind < 850:
            return b"%d %b" % (index, self._lines[place % len(self._lines)])
        return self._slice(self._noise, place, place % 64)

    def _slice(self, source: bytes, place: int, size: int) -> bytes:
        start = place % (len(source) - size)
        return source[start : start + size]

    def _headers(self, index: int, choice: int) -> tuple[tuple[str, bytes | None], ...]:
        if choice % 2:
            return ()
        number = b"%d" % index
        if choice % 8 < 4:
            return (("number", number),)
        if choice % 16 == 4:
            return (("twice", number), ("empty", b""), ("none", None), ("twice", b"2"))
        if choice % 64 == 14:
            return (("gr\u00f6\u00dfe", number), ("large", self._slice(self._noise, choice, 700)))
        return (("", number), ("last", None if choice % 3 else b""))
