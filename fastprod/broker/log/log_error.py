"""LogError: what a log refuses, with Kafka's error code."""

from __future__ import annotations

from fastprod.error_codes import OFFSET_OUT_OF_RANGE


class LogError(Exception):
    """The log cannot do what it was asked to; it has not changed.

    Attributes:
        error_code: Kafka's.
        message: one sentence with the numbers.
        record_errors: (index in the batch, why), as `InvalidBatch` has them; () here.
    """

    def __init__(
        self, error_code: int, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(error_code, message, record_errors)
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors

    def __str__(self) -> str:
        return self.message


class OffsetOutOfRange(LogError):
    """An offset below the log's start or above its end (B-C5.2)."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            OFFSET_OUT_OF_RANGE,
            f"offset {offset} is out of range: the log has {log_start_offset} to {log_end_offset}",
        )
        self.offset = offset

    def __reduce__(self) -> tuple[type[LogError], tuple[int, str]]:
        return LogError, (self.error_code, self.message)
