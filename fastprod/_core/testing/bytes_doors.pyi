"""Doors to the varints, stores, checksums and buffers of fastprod/_core/bytes."""

from typing import final

from typing_extensions import Buffer

def put_for_test(value: int) -> tuple[bytes, bytes, bytes]:
    """Return `value` as stored by the 16, 32 and 64 bit big-endian stores."""

def get_for_test(data: bytes, offset: int) -> tuple[int, int, int, int]:
    """Read at `offset`: 16, 32, 64 bits big-endian and 32 bits little-endian."""

def leading_zeros_for_test(value: int) -> int:
    """Return the leading zero bits of a 64-bit `value`, which must not be 0."""

def varint_size_for_test(value: int) -> int:
    """Return the bytes that a zigzag varint of a signed 64-bit `value` takes, 1..10."""

def uvarint_size_for_test(value: int) -> int:
    """Return the bytes that an unsigned varint of an unsigned 64-bit `value` takes, 1..10."""

def varint_encode_for_test(value: int) -> bytes:
    """Return the zigzag varint of a signed 64-bit `value`."""

def uvarint_encode_for_test(value: int) -> bytes:
    """Return the unsigned varint of an unsigned 64-bit `value`."""

def varint_decode_for_test(data: bytes, max_bytes: int) -> tuple[int, int] | None:
    """Read a zigzag varint of at most `max_bytes` (5 or 10): (value, bytes read), or None."""

def uvarint_decode_for_test(data: bytes, max_bytes: int) -> tuple[int, int] | None:
    """Read an unsigned varint of at most `max_bytes` (5 or 10): (value, bytes read), or None."""

def update_for_test(path: str, crc: int, data: Buffer, rounds: int = 1) -> int:
    """Feed `data` to one path `rounds` times, starting from the finished `crc`; for tests."""

def combine_for_test(path: str, crc_a: int, crc_b: int, len_b: int) -> int:
    """Combine two finished CRCs with one path's multiplication; for tests."""

def contract_for_test(crc_a: int, data: Buffer, crc_b: int, len_b: int) -> tuple[int, int]:
    """Return what crc32c_update and crc32c_combine, the C contract, give; for tests."""

def hash_rounds_for_test(key: Buffer, rounds: int) -> int:
    """Hash `key` `rounds` times without the GIL; the XOR of the unsigned results; for tests."""

@final
class PoolForTest:
    """A pool behind Python handles, for tests: chains and waiters are named by small integers.

    Threads: any. `take` with a time-out blocks without the GIL; nothing else blocks.
    """

    def __init__(self, total_bytes: int) -> None:
        """Reserve `total_bytes`, rounded down to whole slabs of 4 KiB.

        Raises:
            MemoryError: the machine refuses the reservation.
        """
    def take(
        self, need_bytes: int, prefer_big: bool = False, timeout_ms: float = 0.0
    ) -> int | None:
        """Take a chain with room for `need_bytes`.

        Args:
            need_bytes: bytes of room.
            prefer_big: take 32 KiB slabs where there are any.
            timeout_ms: how long to wait in line; 0: not at all.

        Returns:
            The chain's handle, or None when the pool was exhausted for that long.

        Raises:
            ValueError: more than the pool has.
            OSError: the pool is closed, or was while waiting.
        """
    def queue(
        self, need_bytes: int, is_delivery: bool = False
    ) -> tuple[int, None] | tuple[None, int] | tuple[None, None]:
        """Take a chain, or get in line without waiting: (chain, None) or (None, waiter).

        Args:
            need_bytes: bytes of room.
            is_delivery: as the thread that runs the callbacks; neither: too much waits for it.
        """
    def look(self, waiter: int) -> int | None:
        """Return the waiter's chain, which ends the waiter; None: it is still in line.

        Raises:
            OSError: the pool was closed meanwhile; the waiter is gone.
        """
    def cancel(self, waiter: int, timed_out: bool = False) -> int | None:
        """Leave the line; the chain if it had arrived already. Raises as `look`."""
    def give(self, handle: int, keep: bool = False) -> None:
        """Give a chain back; `keep` leaves the handle in place, to do wrong with it."""
    def hold(self, size: int) -> None:
        """Count so many bytes as taken: callbacks have still to run."""
    def let_go(self, size: int) -> None:
        """They have run."""
    def take_heap(self, size: int) -> int:
        """Make a chain of one slab outside the arena."""
    def spans(self, handle: int) -> list[tuple[int, int]]:
        """Return (address, bytes) of each slab in the chain."""
    def fill(self, handle: int, byte: int) -> None:
        """Write `byte` all over the chain."""
    def is_filled(self, handle: int, byte: int) -> bool:
        """Tell whether the chain holds nothing but `byte`."""
    def close(self) -> None: ...
    @property
    def arena_address(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def free_bytes(self) -> int:
        """Bytes of slabs that nobody has, those that wait for callbacks among them."""
    @property
    def callback_bytes(self) -> int:
        """What `hold` has counted and `let_go` has not."""
    @property
    def heap_bytes(self) -> int:
        """Bytes now out in heap slabs."""
    @property
    def waiting(self) -> int:
        """Waiters in line."""
    @property
    def wait_ns_total(self) -> int:
        """Nanoseconds spent waiting by everybody so far (P-D.3.9)."""
    @property
    def exhausted_total(self) -> int:
        """Waits that ended by their time-out."""
