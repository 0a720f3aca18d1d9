"""What Python sees of `headers`; the encoder itself is native (see headers.pxd)."""

from collections.abc import Iterable, Mapping

from typing_extensions import Buffer

def encode_headers_for_test(
    headers: Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None],
) -> bytes:
    """Encode headers as a record holds them, their count first (E.3).

    Args:
        headers: (name, value) pairs or a dict.

    Raises:
        TypeError: a name is no str, or a value neither a contiguous buffer nor None.
        ValueError: they do not fit a record, or changed meanwhile.
    """
