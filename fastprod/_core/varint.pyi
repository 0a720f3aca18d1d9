"""Zigzag and unsigned varints (contract E.3.1, E.3.3), as tests see them."""

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
