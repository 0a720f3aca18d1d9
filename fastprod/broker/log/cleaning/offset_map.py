"""OffsetMap: the newest offset of each key, in a bounded amount of memory.

Source: SkimpyOffsetMap of Apache Kafka; contract B-C4.6.
"""

from __future__ import annotations

from typing import Final

_DIGEST_BYTES: Final = 16

ENTRY_BYTES: Final = 160
"""What one key takes, about: its digest, its offset, and their place in a dict."""


class OffsetMap:
    """Keys by a digest of 16 bytes, so that long ones take no more than short ones. One thread.

    Args:
        most_bytes: of all entries, about; there is always room for 100 of them.

    Attributes:
        latest_offset: keys up to here have been seen; -1: none.
    """

    __slots__ = ("_blake2b", "_most", "_offsets", "latest_offset")

    def __init__(self, most_bytes: int) -> None:
        # Here: it loads OpenSSL, some 4 MB that a broker without compaction does not need.
        from hashlib import blake2b  # noqa: PLC0415

        self._blake2b = blake2b
        self._most = max(most_bytes // ENTRY_BYTES, 100)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note that a key was seen at an offset; False: there is no room for it."""
        digest = self._blake2b(key, digest_size=_DIGEST_BYTES).digest()
        if digest not in self._offsets and len(self._offsets) >= self._most:
            return False
        self._offsets[digest] = offset
        return True

    def get(self, key: bytes) -> int:
        """The newest offset of a key; -1: it was not seen."""
        return self._offsets.get(self._blake2b(key, digest_size=_DIGEST_BYTES).digest(), -1)
