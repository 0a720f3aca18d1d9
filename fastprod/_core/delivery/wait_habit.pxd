"""Whether a thread waits for what it sends."""
from libc.stdint cimport int32_t

from fastprod._core.delivery.result cimport Incomplete

# This thread sends a record, whose result will be on `list`: how many in a row,
# up to the one before, it has waited for before it sent the next one there.
cdef int32_t note_send(Incomplete* list) noexcept nogil
# This thread waits for a record.
cdef void note_wait() noexcept nogil
