"""Steps over the batches of a log that were validated when they came in (B-C3.6, B-C5, B-D3).

`log` is any buffer that holds batches from byte `at` up to `end` (clipped to the buffer's end).
Any thread; nothing blocks.
"""

from typing_extensions import Buffer

def find_offset(log: Buffer, at: int, end: int, offset: int) -> tuple[int, bool]:
    """Find the first batch whose last offset is at least `offset`.

    Returns:
        (its byte, True); or (where the first header begins that is not all there, False).
    """

def whole_batches(log: Buffer, at: int, end: int, up_to: int) -> int:
    """Return the byte after the last whole batch all of whose offsets are below `up_to`."""

def batch_size(log: Buffer, at: int) -> int | None:
    """Return the bytes of the batch at `at`, of which only the header need be there.

    None: there is no header.
    """

def find_timestamp(
    log: Buffer, at: int, end: int, timestamp: int, from_offset: int, codec_limit: int
) -> tuple[int, int] | None:
    """Find the first record from `from_offset` on whose timestamp is at least `timestamp`.

    Batches whose maximum is below are stepped over, others are decompressed. Without the GIL.

    Args:
        codec_limit: most bytes of the decompressed records of a batch.

    Returns:
        (offset, timestamp), or None.

    Raises:
        CorruptRecordError: a batch is damaged.
    """

def find_largest_timestamp(
    log: Buffer, at: int, end: int, from_offset: int, codec_limit: int
) -> tuple[int, int] | None:
    """Find the first record from `from_offset` on that has the largest timestamp.

    See `find_timestamp`.
    """

def copy_batch(batch: Buffer) -> bytes:
    """Return a copy; from 4 KiB on it is made without the GIL."""

def copy_into(batch: Buffer, chunk: Buffer, at: int) -> None:
    """Copy into a writable buffer.

    Raises:
        ValueError: it does not fit.
    """
