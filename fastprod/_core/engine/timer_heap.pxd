"""Timers: what is due next, of any number of things that wait for a time."""
from libc.stdint cimport int64_t

cdef enum:
    NEVER = 0x7FFFFFFFFFFFFFFF

cdef struct Timer:
    # One thing's due time; zeroed it is not set.
    # OWNER    whoever it is a part of, who clears it before that is freed.
    # THREADS  the heap's.
    int64_t due_ns
    void* owner             # borrowed; for who pops it
    bint is_set
    Timer* child            # of those that are due later, the first
    Timer* next             # sibling
    Timer* before           # sibling, or the parent of a first child; NULL: the root

cdef struct TimerHeap:
    # A pairing heap through the timers themselves: nothing here can run out of memory.
    # BORROWS  the timers that are set.
    Timer* root

# Set `timer`, or set it anew.
cdef void timer_set(TimerHeap* heap, Timer* timer, int64_t due_ns) noexcept nogil
# No matter whether it is set.
cdef void timer_clear(TimerHeap* heap, Timer* timer) noexcept nogil
# When the first is due; NEVER: none is set.
cdef int64_t timer_next_ns(TimerHeap* heap) noexcept nogil
# Clear and return the first, if it is due at `now_ns`; else NULL.
cdef Timer* timer_pop_due(TimerHeap* heap, int64_t now_ns) noexcept nogil
