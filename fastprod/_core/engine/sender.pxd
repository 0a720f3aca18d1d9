"""The Sender: the I/O thread's loop of ready, drain, poll, complete (P-F.1, P-F.2, P-G.1)."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.engine.accumulator cimport Accumulator
from fastprod._core.engine.sender_state cimport IoThread, Node

cdef FpStatus io_init(
    IoThread* io, Accumulator* accumulator, bint force_poll, int64_t max_receive_bytes
) noexcept nogil
cdef void io_destroy(IoThread* io) noexcept nogil
# In the child of a fork: give up what was inherited, touch no lock, tell the kernel nothing.
cdef void io_abandon(IoThread* io) noexcept nogil

# Start the thread (all signals blocked, no Python thread state). 0, or an errno.
cdef int sender_start(IoThread* io) noexcept nogil
# A node's part of a turn: send what is ready, as far as it takes requests.
cdef void serve_node(IoThread* io, Node* node) noexcept nogil
# Before the I/O thread sleeps: from here on a kick wakes it. Returns how long it may sleep, in ns;
# 0 if there was a kick since it counted `kicks`.
cdef int64_t sender_park(IoThread* io, int32_t kicks) noexcept nogil
# Wait for its end, and close its descriptors; the counters stay. The caller has set io.stop and
# woken it.
cdef void sender_join(IoThread* io) noexcept nogil
