"""What Python sees of `float_text`; see float_text.pxd."""

def double_text_for_test(number: float) -> str:
    """The text of a 64-bit number."""

def float_text_for_test(number: float) -> str:
    """The text of the 32-bit number that is nearest."""
