"""Hands the answer to EndTxn to the caller that waits for it, past the control thread.

The control thread would read it first, with the GIL, and wake the caller then: two threads more to
wake up, some 80 us, of a commit that takes a millisecond. So a caller that sleeps in
`commit_transaction` gets the answer itself, if it says that all is well, and does what follows from
it; the control thread hears of it afterwards. Every other answer takes the usual way.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from fastprod._core.bytes.sync cimport (
    fp_cond_broadcast, fp_cond_destroy, fp_cond_init, fp_cond_wait_until, fp_mutex_destroy,
    fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_now_ns,
)
from fastprod._core.engine.control_queue cimport Event, event_free

cdef enum:
    ERROR_AT = 9            # correlation id 4, no tags 1, throttle time 4


cdef void end_wait_init(EndWait* wait) noexcept nogil:
    memset(wait, 0, sizeof(EndWait))
    fp_mutex_init(&wait.lock)
    fp_cond_init(&wait.changed)


cdef void end_wait_destroy(EndWait* wait) noexcept nogil:
    event_free(wait.answer)
    fp_cond_destroy(&wait.changed)
    fp_mutex_destroy(&wait.lock)


cdef bint has_ended_so(const uint8_t* data, int64_t size) noexcept nogil:
    return size >= ERROR_AT + 2 and data[ERROR_AT] == 0 and data[ERROR_AT + 1] == 0


cdef void end_wait_sent(EndWait* wait, int64_t ending, int64_t request) noexcept nogil:
    fp_mutex_lock(&wait.lock)
    wait.ending = ending
    wait.request = request
    fp_mutex_unlock(&wait.lock)


cdef bint end_wait_offer(EndWait* wait, Event* answer) noexcept nogil:
    cdef bint is_taken
    fp_mutex_lock(&wait.lock)
    is_taken = (
        answer.token == wait.request and wait.ending != 0 and wait.awaited == wait.ending
        and has_ended_so(answer.data, answer.data_bytes))
    if answer.token == wait.request:
        wait.ending = 0
    if is_taken:
        wait.answer = answer
        fp_cond_broadcast(&wait.changed)
    fp_mutex_unlock(&wait.lock)
    return is_taken


cdef Event* end_wait_take(EndWait* wait, int64_t ending, int64_t deadline_ns) noexcept nogil:
    cdef Event* answer = NULL
    cdef bint is_first
    fp_mutex_lock(&wait.lock)
    is_first = wait.awaited == 0
    if is_first:
        wait.awaited = ending
    while wait.told < ending and fp_now_ns() < deadline_ns:
        if is_first and wait.answer != NULL:
            break
        fp_cond_wait_until(&wait.changed, &wait.lock, deadline_ns)
    if is_first:
        answer, wait.answer = wait.answer, NULL
        wait.awaited = 0
    fp_mutex_unlock(&wait.lock)
    return answer


cdef void end_wait_tell(EndWait* wait, int64_t ending) noexcept nogil:
    fp_mutex_lock(&wait.lock)
    wait.told = max(wait.told, ending)
    fp_cond_broadcast(&wait.changed)
    fp_mutex_unlock(&wait.lock)
