"""Whether a thread waits for what it sends."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.delivery.result cimport Incomplete, Result

# This thread sends a record, whose result will be on `list`: how many in a row,
# up to the one before, it has waited for before it sent the next one there; 0 where others wait.
cdef int32_t note_send(Incomplete* list) noexcept nogil
# This thread waits for a record.
cdef void note_wait() noexcept nogil
# Wait for a result until `until_ns`; where nobody else waits, by doing the I/O thread's work.
# `end_wait` follows when the GIL is there again: who waits for it may be overtaken by who drives.
cdef void wait_slice(Result* result, int64_t until_ns) noexcept nogil
# This thread waits from now on, for records of whatever producer; returns whether alone.
cdef bint begin_wait() noexcept nogil
cdef void end_wait() noexcept nogil
# In a child the parent's other threads do not wait.
cdef void forget_waits() noexcept nogil
