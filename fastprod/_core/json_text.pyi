"""What Python sees of `json_text`; see json_text.pxd."""

def json_text_for_test(data: bytes, is_text: bool) -> bytes:
    """A string, or bytes as base64, as JSON."""
