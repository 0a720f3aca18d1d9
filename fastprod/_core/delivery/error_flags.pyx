"""Fills and reads the table of what each Kafka error code asks of the I/O thread."""
from libc.stdint cimport int32_t, uint8_t

from fastprod.error_codes import KAFKA_ERRORS

cdef enum:
    LOWEST = -1
    COUNT = 512
    RETRIABLE = 1
    REFRESH = 2
    FATAL = 4

cdef uint8_t _bits[COUNT]


def _fill():
    for code, row in KAFKA_ERRORS.items():
        _bits[code - LOWEST] = (
            RETRIABLE * bool(row.retriable)
            | REFRESH * bool(row.refresh_metadata)
            | FATAL * bool(row.fatal_for_idempotent)
        )


_fill()


cdef inline uint8_t _of(int32_t code) noexcept nogil:
    """A code that this table does not know is neither retriable nor fatal (P-F.4 "other")."""
    if code < LOWEST or code >= COUNT + LOWEST:
        return 0
    return _bits[code - LOWEST]


cdef bint code_is_retriable(int32_t code) noexcept nogil:
    return _of(code) & RETRIABLE != 0


cdef bint code_refreshes_metadata(int32_t code) noexcept nogil:
    return _of(code) & REFRESH != 0


cdef bint code_is_fatal(int32_t code) noexcept nogil:
    return _of(code) & FATAL != 0


def classes(int code):
    return code_is_retriable(code), code_refreshes_metadata(code), code_is_fatal(code)
