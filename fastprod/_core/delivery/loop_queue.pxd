"""LoopQueue: what an event loop has to wake, and the descriptor that tells the loop so.

Whoever completes something (the I/O thread, as a rule) hands over a LoopItem: all who wait in that
loop for the same thing. It costs one lock and, unless the loop has been told already, one write.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from fastprod._core.bytes.sync cimport fp_mutex, fp_wake

cdef struct LoopQueue               # below

cdef struct LoopItem:
    # Who waits in one loop for one thing.
    #
    # OWNER    the thing they wait for; from loop_queue_push on the queue; then the loop's reader.
    # FREED BY loop_item_free, once every place is NULL.
    # THREADS  guarded by its owner's lock. The places are PyObject references: only a thread with
    #          the GIL puts them in or takes them out.
    LoopItem* next
    LoopQueue* queue            # one reference
    uint32_t count              # of places
    uint32_t capacity
    uint32_t at                 # the next one to wake
    uint64_t number             # of a flush: the newest result that it waits for
    void** awaiters             # owned; NULL: taken out again

cdef struct LoopQueue:
    # OWNER    shared: `refs` counts its LoopReader and every LoopItem.
    # FREED BY loop_queue_release, by whoever drops the last reference, any thread, no GIL needed.
    # THREADS  any. Both locks are last in the order, and never held together.
    int32_t refs                # atomic
    fp_mutex wake_lock          # guards writing to `wake`, and closing it
    fp_wake wake                # -1: closed, the loop is gone
    fp_mutex lock               # guards what follows
    bint is_signalled           # the descriptor is readable, or about to be
    LoopItem* head
    LoopItem* tail

# With one reference; NULL: no memory, or no descriptor left (errno).
cdef LoopQueue* loop_queue_new() noexcept nogil
cdef void loop_queue_release(LoopQueue* queue) noexcept nogil

# Wake them all in their loop. Takes the item over.
cdef void loop_queue_push(LoopItem* item) noexcept nogil
# Everything that was pushed, linked by `next`; the next push signals again.
cdef LoopItem* loop_queue_take(LoopQueue* queue) noexcept nogil
# Have the loop come again, as for a push.
cdef void loop_queue_signal(LoopQueue* queue) noexcept nogil
# Close the descriptor. What is pushed from now on stays until somebody takes it.
cdef void loop_queue_close(LoopQueue* queue) noexcept nogil
# In the child of a fork: the descriptor and the lock are copies, of which the parent may be using
# the lock.
cdef void loop_queue_abandon(LoopQueue* queue) noexcept nogil

# NULL: no memory. Takes a reference to the queue.
cdef LoopItem* loop_item_new(LoopQueue* queue) noexcept nogil
cdef void loop_item_free(LoopItem* item) noexcept nogil
# The place that `awaiter` got; -1: no memory. Takes the reference over if there is a place.
cdef int64_t loop_item_add(LoopItem* item, void* awaiter) noexcept nogil
# Whether it was still there: then its reference is the caller's again.
cdef bint loop_item_remove(LoopItem* item, uint32_t place, void* awaiter) noexcept nogil
