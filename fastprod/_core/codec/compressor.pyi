"""Compression of the records part of a batch (contract P-E.6)."""

from fastprod._core.codec.loader import describe as describe

def available(name: str) -> bool:
    """Tell whether a codec works here without the GIL.

    Args:
        name: "none", "gzip", "snappy", "lz4" or "zstd".

    Returns:
        True for "none" and "snappy"; for the others, whether their functions were found.

    Raises:
        KeyError: no such codec.
    """
