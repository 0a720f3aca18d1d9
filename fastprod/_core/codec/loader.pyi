"""Where the compression functions were found."""

def candidate_files(codec: str) -> list[str]:
    """Return the files in which a codec's functions are looked for, in order.

    Args:
        codec: "gzip", "lz4" or "zstd".

    Returns:
        Extension files of installed packages first, then library names for the dynamic loader; the
        empty string is the running program itself.
    """

def describe() -> dict[str, str]:
    """Return how each codec is done here.

    Returns:
        By codec name ("gzip", "snappy", "lz4", "zstd"): library, version and file;
        "built in"; or "not available". Does not block; any thread.
    """
