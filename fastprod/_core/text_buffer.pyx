"""Bodies of the growing text; the contract is in text_buffer.pxd."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastprod._core.status cimport FP_NOMEM, FP_OK, FpStatus, check

cdef enum:
    FIRST_BYTES = 4096


cdef FpStatus text_grow(TextBuffer* text, size_t size) noexcept nogil:
    cdef size_t used = text.at - text.data
    cdef size_t room = text.end - text.data
    cdef uint8_t* grown
    if size > <size_t>1 << 62:
        return FP_NOMEM
    room = max(<size_t>FIRST_BYTES, room + room // 2, used + size)
    grown = <uint8_t*>realloc(text.data, room)
    if grown == NULL:
        return FP_NOMEM
    text.data = grown
    text.at = grown + used
    text.end = grown + room
    return FP_OK


cdef void text_free(TextBuffer* text) noexcept nogil:
    free(text.data)
    memset(text, 0, sizeof(TextBuffer))


def text_for_test(list pieces):
    cdef TextBuffer text
    cdef FpStatus status
    memset(&text, 0, sizeof(text))
    try:
        for piece in pieces:
            if isinstance(piece, int):
                status = text_put_byte(&text, <uint8_t><int>piece)
            else:
                status = text_put(&text, <const char*>piece, len(piece))
            check(status)
        return text.data[:text.at - text.data]
    finally:
        text_free(&text)
