"""Doors to the texts that JSON is made of."""

from fastprod._core.json.times import TimePattern, ZoneOffsets

def decimal_text_for_test(number: bytes, scale: int) -> str:
    """The text of 16 bytes in this machine's order, times 10**-scale (-20..38)."""

def integer_text_for_test(number: int) -> str:
    """The text of a number of 64 bits, signed or not."""

def double_text_for_test(number: float) -> str:
    """The text of a 64-bit number."""

def float_text_for_test(number: float) -> str:
    """The text of the 32-bit number that is nearest."""

def time_text_for_test(pattern: TimePattern, zone: ZoneOffsets, time_s: int, nano: int) -> str:
    """The text of a time of `zone`."""

def json_text_for_test(data: bytes, is_text: bool) -> bytes:
    """A string, or bytes as base64, as JSON."""

def text_for_test(pieces: list[bytes | int]) -> bytes:
    """Put pieces, and single bytes as ints, one behind the other."""
