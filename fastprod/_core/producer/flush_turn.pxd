"""FlushTurn: a flush, awaited in an event loop."""
from libc.stdint cimport uint32_t, uint64_t

from fastprod._core.delivery.loop_future cimport LoopFuture
from fastprod._core.delivery.loop_queue cimport LoopItem
from fastprod._core.engine.engine cimport Engine


cdef class FlushTurn(LoopFuture):
    # Threads: that of its loop.
    cdef Engine engine          # whose records it waits for
    cdef LoopItem* item         # owned while it is to come; then the loop's
    cdef uint64_t number        # of the newest result
    cdef uint32_t epoch
    cdef bint is_pending        # records linger no longer

    cdef int _end(self) except -1
    cdef int _free_item(self) except -1
