"""What Python sees of `text_buffer`; see text_buffer.pxd."""

def text_for_test(pieces: list[bytes | int]) -> bytes:
    """Put pieces, and single bytes as ints, one behind the other."""
