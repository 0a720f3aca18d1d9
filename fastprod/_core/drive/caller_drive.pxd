"""A caller that waits does the I/O thread's work: docs/design/engine.md, "Who drives"."""
from fastprod._core.engine.sender_state cimport IoThread

# From here on callers may, once the I/O thread runs.
cdef void let_callers_drive(IoThread* io) noexcept nogil
