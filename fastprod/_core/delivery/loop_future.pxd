"""LoopFuture: asyncio's future protocol for something that ends outside of the event loop."""
from fastprod._core.delivery.loop_reader cimport Awaiter, LoopReader


cdef class LoopFuture(Awaiter):
    # Threads: that of its loop.
    cdef LoopReader reader
    cdef object callback        # the first one; None: there is none
    cdef object context         # its contextvars.Context
    cdef list more              # further (callback, context)
    cdef object found           # the outcome, once it is known and was no error
    cdef readonly object _cancel_message    # for asyncio.gather
    cdef bint is_found
    cdef bint is_cancelled
    cdef bint is_watched        # its loop will wake it
    cdef public object _asyncio_future_blocking

    # What a subclass says. `is_over`: whether it has ended; never blocks. `outcome`: what it came
    # to, or an exception object; requires is_over. `watch`: see to it that `wake` is called when it
    # has ended, False: it has already. `unwatch`: never mind, and give up what can be given up.
    cdef bint is_over(self) except -1
    cdef object outcome(self)
    cdef bint watch(self) except -1
    cdef int unwatch(self) except -1
    cdef int tell(self) except -1
