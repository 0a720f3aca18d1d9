"""What Python sees of `number_text`; see number_text.pxd."""

def decimal_text_for_test(number: bytes, scale: int) -> str:
    """The text of 16 bytes in this machine's order, times 10**-scale (-20..38)."""

def integer_text_for_test(number: int) -> str:
    """The text of a number of 64 bits, signed or not."""
