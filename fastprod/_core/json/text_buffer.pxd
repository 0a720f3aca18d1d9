"""TextBuffer: bytes that grow at their end, for text that is written without the GIL."""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from fastprod._core.bytes.fp_status cimport FP_OK, FpStatus

cdef struct TextBuffer:
    # OWNER whoever made it.  FREED BY text_free, or given away with its data.  THREADS one.
    uint8_t* data
    uint8_t* at             # where the next byte goes
    uint8_t* end            # of the room

# More room; `at` and `data` may move. FP_NOMEM leaves the buffer as it was.
cdef FpStatus text_grow(TextBuffer* text, size_t size) noexcept nogil
cdef void text_free(TextBuffer* text) noexcept nogil


cdef inline FpStatus text_reserve(TextBuffer* text, size_t size) noexcept nogil:
    """Room for `size` bytes at `at`."""
    if <size_t>(text.end - text.at) >= size:
        return FP_OK
    return text_grow(text, size)


cdef inline FpStatus text_put(TextBuffer* text, const void* data, size_t size) noexcept nogil:
    cdef FpStatus status = text_reserve(text, size)
    if status == FP_OK:
        memcpy(text.at, data, size)
        text.at += size
    return status


cdef inline FpStatus text_put_byte(TextBuffer* text, uint8_t byte) noexcept nogil:
    cdef FpStatus status = text_reserve(text, 1)
    if status == FP_OK:
        text.at[0] = byte
        text.at += 1
    return status
