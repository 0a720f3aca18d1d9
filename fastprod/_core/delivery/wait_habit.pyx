"""Counts, for each thread, the records in a row that it has waited for, and who waits now."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.sync cimport fp_add_i32, fp_load_i32, fp_store_i32
from fastprod._core.delivery.result cimport (
    Incomplete, Result, result_drive, result_urge, result_wait,
)

cdef extern from *:
    """
    static __thread void *fp_sent_to = NULL;
    static __thread int fp_waited = 0;
    static __thread int fp_waits = 0;
    static int32_t fp_waiting = 0;
    """
    # Of this thread:
    void* fp_sent_to    # the list on which the result of its last record was
    int fp_waited       # it has waited since
    int fp_waits        # as note_send says
    # Of the process, atomic: threads that wait for records.
    int32_t fp_waiting

cdef enum:
    MOST_WAITS = 1000


cdef int32_t note_send(Incomplete* list) noexcept nogil:
    global fp_sent_to, fp_waited, fp_waits
    if fp_waited and fp_sent_to == list:
        fp_waits = min(fp_waits + 1, MOST_WAITS)
    else:
        fp_waits = 0
        fp_sent_to = list
    fp_waited = 0
    return fp_waits if fp_load_i32(&fp_waiting) == 0 else 0


cdef void note_wait() noexcept nogil:
    global fp_waited
    fp_waited = 1


cdef void wait_slice(Result* result, int64_t until_ns) noexcept nogil:
    if begin_wait():
        result_drive(result, until_ns)
    result_urge(result)
    result_wait(result, until_ns)


cdef bint begin_wait() noexcept nogil:
    return fp_add_i32(&fp_waiting, 1) == 1


cdef void end_wait() noexcept nogil:
    fp_add_i32(&fp_waiting, -1)


cdef void forget_waits() noexcept nogil:
    fp_store_i32(&fp_waiting, 0)
