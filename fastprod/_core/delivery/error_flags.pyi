"""What Python sees of `error_flags`: the engine's view of the error table."""

from fastprod.error_codes import KAFKA_ERRORS as KAFKA_ERRORS

def classes(code: int) -> tuple[bool, bool, bool]:
    """Tell what the I/O thread makes of an error code.

    Args:
        code: int32; one that the table does not know is neither of the three (P-F.4).

    Returns:
        (retriable, asks for new metadata, ends an idempotent producer).
    """
