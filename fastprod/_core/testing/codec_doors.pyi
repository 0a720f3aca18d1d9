"""Doors to the codecs and to where their functions are found."""

from collections.abc import Sequence

def load_for_test(codec: str, path: str | None) -> bool:
    """Take a codec's functions from `path`; None forgets them. False: unfit, nothing changed."""

def compress_for_test(codec: str, level: int, spans: list[bytes]) -> bytes:
    """Compress the concatenation of `spans`.

    Args:
        codec: "none", "gzip", "snappy", "lz4" or "zstd".
        level: gzip -1 or 1..9; lz4 1..17 (9: the fast compressor); zstd -131072..22; others: any.
        spans: pieces of the input.

    Raises:
        ValueError: no such level; the codec was not found.
    """

def compress_many_for_test(
    codec: str,
    level: int,
    batches: Sequence[list[bytes]],
    capacities: Sequence[int | None] | None = None,
) -> list[bytes | None]:
    """Compress several batches with one compressor; see `compress_for_test`.

    Args:
        capacities: bytes of room for each batch's output; None: its bound.

    Returns:
        What each batch became; None where the room was too small.
    """

def bound_for_test(codec: str, level: int, n: int) -> int:
    """Return the most bytes that `n` bytes can become."""

def decompress_for_test(codec: str, data: bytes, limit: int = ...) -> bytes:
    """Decompress `data` into at most `limit` bytes.

    Raises:
        ValueError: corrupt or cut short; larger than the limit; the codec was not found.
    """
