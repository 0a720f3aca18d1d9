"""The newest offset of each key, in bounded memory (B-C4.6)."""

from __future__ import annotations

from fastprod.broker.log.cleaning.offset_map import ENTRY_BYTES, OffsetMap


def test_the_newest_offset_of_a_key_counts() -> None:
    """B-C4.6"""
    made = OffsetMap(0)
    assert made.get(b"k") == -1
    assert made.put(b"k", 3)
    assert made.put(b"k", 7)
    assert (made.get(b"k"), len(made)) == (7, 1)


def test_there_is_room_for_so_many_keys_however_long_they_are() -> None:
    """B-C4.6"""
    made = OffsetMap(200 * ENTRY_BYTES)
    assert [made.put(b"%d" % number * 1000, number) for number in range(201)].count(True) == 200
    assert made.put(b"5" * 1000, 300)
    assert made.get(b"200" * 1000) == -1
