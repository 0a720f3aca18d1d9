"""Makes room for a text that grows."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FpStatus

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
