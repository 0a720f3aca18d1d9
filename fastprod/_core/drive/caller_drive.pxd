"""A caller that waits does the I/O thread's work: docs/design/engine.md, "Who drives"."""
from libc.stdint cimport int64_t, uint64_t

from fastprod._core.engine.accumulator cimport Accumulator
from fastprod._core.engine.sender_state cimport IoThread

# From here on callers may, once the I/O thread runs.
cdef void let_callers_drive(IoThread* io) noexcept nogil
# For a flush of all results up to `last_number`: where that is one batch, see to it as `result`
# does, until it is complete or `deadline_ns`; else let the I/O thread begin.
cdef void drive_flush(Accumulator* a, uint64_t last_number, int64_t deadline_ns) noexcept nogil
