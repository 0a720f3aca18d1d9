"""MemoryTurn: a place in the pool's line, awaited in an event loop."""
from libc.stdint cimport int64_t, uint32_t

from fastprod._core.bytes.buffer_pool cimport Waiter
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.delivery.loop_future cimport LoopFuture
from fastprod._core.delivery.loop_queue cimport LoopItem
from fastprod._core.engine.engine cimport Engine


cdef class MemoryTurn(LoopFuture):
    # Threads: that of its loop.
    cdef Engine engine          # whose pool it is
    cdef Waiter waiter
    cdef LoopItem* item         # owned while it stands in line; then the loop's
    cdef Slab* chain            # owned
    cdef uint32_t epoch
    cdef int64_t since_ns
    cdef bint is_in_line        # as far as this knows: the memory may be there
    cdef bint is_late
    cdef bint is_refused        # the pool was closed

    cdef int _leave(self, bint is_late) except -1
    cdef int _give_back(self) except -1
    cdef int _free_item(self) except -1
    # What it was given, NULL: nothing. The caller's now.
    cdef Slab* take(self) except? NULL

# In line already, or over at once. Raises as `running_reader`.
cdef MemoryTurn memory_turn(Engine engine, size_t need_bytes)
