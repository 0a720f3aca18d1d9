"""Keeps timers in order of time.

Fredman, Sedgewick, Sleator and Tarjan, "The pairing heap: a new form of self-adjusting heap", 1986.
"""
from libc.stdint cimport int64_t


cdef Timer* _meld(Timer* a, Timer* b) noexcept nogil:
    """The root of both; neither has siblings."""
    cdef Timer* later
    if a == NULL:
        return b
    if b == NULL:
        return a
    if b.due_ns < a.due_ns:
        later = a
        a = b
    else:
        later = b
    later.before = a
    later.next = a.child
    if a.child != NULL:
        a.child.before = later
    a.child = later
    return a


cdef Timer* _meld_all(Timer* first) noexcept nogil:
    """One root of a row of siblings: by pairs from left to right, then all from right to left."""
    cdef Timer* pairs = NULL
    cdef Timer* root = NULL
    cdef Timer* a
    cdef Timer* b
    while first != NULL:
        a = first
        b = a.next
        first = b.next if b != NULL else NULL
        a.next = NULL
        a.before = NULL
        if b != NULL:
            b.next = NULL
            b.before = NULL
        a = _meld(a, b)
        a.next = pairs
        pairs = a
    while pairs != NULL:
        a = pairs
        pairs = a.next
        a.next = NULL
        root = _meld(root, a)
    return root


cdef void timer_clear(TimerHeap* heap, Timer* timer) noexcept nogil:
    cdef Timer* rest
    if not timer.is_set:
        return
    rest = _meld_all(timer.child)
    if timer == heap.root:
        heap.root = rest
    else:
        if timer.before.child == timer:
            timer.before.child = timer.next
        else:
            timer.before.next = timer.next
        if timer.next != NULL:
            timer.next.before = timer.before
        heap.root = _meld(heap.root, rest)
    timer.child = NULL
    timer.next = NULL
    timer.before = NULL
    timer.is_set = False


cdef void timer_set(TimerHeap* heap, Timer* timer, int64_t due_ns) noexcept nogil:
    if timer.is_set:
        if timer.due_ns == due_ns:
            return
        timer_clear(heap, timer)
    timer.due_ns = due_ns
    timer.is_set = True
    heap.root = _meld(heap.root, timer)


cdef int64_t timer_next_ns(TimerHeap* heap) noexcept nogil:
    return heap.root.due_ns if heap.root != NULL else NEVER


cdef Timer* timer_pop_due(TimerHeap* heap, int64_t now_ns) noexcept nogil:
    cdef Timer* timer = heap.root
    if timer == NULL or timer.due_ns > now_ns:
        return NULL
    timer_clear(heap, timer)
    return timer
