"""Big-endian loads and stores, as tests see them."""

def put_for_test(value: int) -> tuple[bytes, bytes, bytes, bytes]:
    """Return `value` as stored by the 16, 32, 64 bit big-endian and 32 bit little-endian stores."""

def get_for_test(data: bytes, offset: int) -> tuple[int, int, int, int]:
    """Read at `offset`: 16, 32, 64 bits big-endian and 32 bits little-endian."""

def leading_zeros_for_test(value: int) -> int:
    """Return the leading zero bits of a 64-bit `value`, which must not be 0."""
