"""LoopReader: an event loop's end of its LoopQueue, and Awaiter: what it wakes."""
from fastprod._core.delivery.loop_queue cimport LoopItem, LoopQueue


cdef class Awaiter:
    # Threads: that of its loop.
    # What it waits for has perhaps happened. Raises KeyboardInterrupt and SystemExit only.
    cdef int wake(self) except -1
    # The loop is closed: nobody will be woken.
    cdef int forget(self) except -1
    # Wait for it no more, and give up what can be given up.
    cdef int unwatch(self) except -1


cdef class LoopReader:
    # Threads: that of its loop; `close` any, when the loop is closed.
    cdef LoopQueue* queue       # one reference
    cdef object loop_ref
    cdef LoopItem* first        # owned; taken from the queue, not yet woken
    cdef LoopItem* last
    cdef set in_line            # Awaiters that others wait behind: they leave as the loop is closed
    cdef int _wake_some(self) except -1
    cdef int close(self) except -1
    cdef int _drop(self, LoopItem** items) except -1

# That of the running event loop, made when it is first asked for. Raises RuntimeError if no loop
# runs here, OSError if there is no descriptor left.
cdef LoopReader running_reader()
# Close those of loops that are closed, and let go of what waits there.
cdef int sweep_readers() except -1
